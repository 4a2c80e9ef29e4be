// SPDX-License-Identifier: BSD-3-Clause
// Operators of Tensor: the number protocol and comparisons, which call the op records directly.
#include "python/exchange/interop.h"
#include "python/ops/call.h"
#include "python/ops/overrides.h"

namespace cograd::python {

PyNumberMethods tensor_number;

namespace {

// An operator, whose record is looked up by name when it first runs.
struct Slot {
  const char* name;
  const char* reflected = nullptr;  // the method if the scalar is on the left
  const OpRecord* record = nullptr;
  const OpRecord* get() {
    if (record == nullptr) [[unlikely]] {
      record = find_op(name);
      if (record == nullptr) detail::fail(ErrorKind::NotImplemented, "operator ", name);
    }
    return record;
  }
};

bool operand(PyObject* o, Value& v) noexcept {
  if (is_tensor(o)) {
    v.set_tensor(reinterpret_cast<PyTensor*>(o)->impl);
    return true;
  }
  Scalar number;
  if (!parse_scalar(o, &number)) return false;
  v.set_scalar(number);
  return true;
}

bool fill(const OpRecord* r, PyObject* a, PyObject* b, Value* args) noexcept {
  if (!operand(a, args[0]) || !operand(b, args[1])) return false;
  for (size_t i = 2; i < r->args.size(); ++i) args[i] = r->args[i].default_value;
  return true;
}

// True if an override handled `a op b`.
bool handled_by_override(const Slot& slot, PyObject* a, PyObject* b, PyObject** out) {
  PyObject* const given[] = {a, b};
  PyObject* const turned[] = {b, a};
  if (is_tensor(a) || slot.reflected == nullptr) return overridden_method(slot.name, given, 2, out);
  return overridden_method(slot.reflected, turned, 2, out);
}

PyObject* binary(Slot& slot, PyObject* a, PyObject* b) noexcept {
  return guarded([&]() -> PyObject* {
    const OpRecord* r = slot.get();
    PyObject* other = nullptr;
    if (overrides_possible && handled_by_override(slot, a, b, &other)) [[unlikely]]
      return other;
    Value args[4];
    if (!fill(r, a, b, args)) {
      if (handled_by_override(slot, a, b, &other)) return other;
      PyObject* const given[] = {a, b};
      refuse_torch(slot.name, given, 2);
      Py_RETURN_NOTIMPLEMENTED;
    }
    Result result;
    call_record(r, args, result);
    return or_stopped(wrap(std::move(result.tensor)));
  });
}

PyObject* inplace(Slot& slot, PyObject* a, PyObject* b) noexcept {
  return guarded([&]() -> PyObject* {
    const OpRecord* r = slot.get();
    PyObject* other = nullptr;
    if (overrides_possible) [[unlikely]] {
      PyObject* const given[] = {a, b};
      if (overridden_method((slot.name + std::string("_")).c_str(), given, 2, &other)) return other;
    }
    Value args[4];
    if (!fill(r, a, b, args)) {
      refuse_torch(slot.name, &b, 1);
      Py_RETURN_NOTIMPLEMENTED;
    }
    inplace_record(r, unwrap(a), args);
    if (requires_grad(unwrap(a))) ensure_tracked(a);
    Py_INCREF(a);
    return or_stopped(a);
  });
}

PyObject* unary(Slot& slot, PyObject* a) noexcept {
  return guarded([&]() -> PyObject* {
    const OpRecord* r = slot.get();
    PyObject* other = nullptr;
    if (overrides_possible && overridden_method(slot.name, &a, 1, &other)) [[unlikely]]
      return other;
    Value args[1];
    operand(a, args[0]);
    Result result;
    call_record(r, args, result);
    return or_stopped(wrap(std::move(result.tensor)));
  });
}

constinit Slot add_slot{"add", "__radd__"}, sub_slot{"sub", "__rsub__"},
    mul_slot{"mul", "__rmul__"}, div_slot{"div", "__rtruediv__"},
    floor_slot{"floor_divide", "__rfloordiv__"}, rem_slot{"remainder", "__rmod__"},
    pow_slot{"pow", "__rpow__"}, matmul_slot{"matmul", "__rmatmul__"},
    and_slot{"bitwise_and", "__rand__"}, or_slot{"bitwise_or", "__ror__"},
    xor_slot{"bitwise_xor", "__rxor__"}, left_slot{"bitwise_left_shift", "__rlshift__"},
    right_slot{"bitwise_right_shift", "__rrshift__"}, neg_slot{"neg"}, pos_slot{"positive"},
    abs_slot{"abs"}, not_slot{"bitwise_not"}, eq_slot{"eq"}, ne_slot{"ne"}, lt_slot{"lt"},
    le_slot{"le"}, gt_slot{"gt"}, ge_slot{"ge"};

template <Slot& S>
PyObject* nb(PyObject* a, PyObject* b) {
  return binary(S, a, b);
}
template <Slot& S>
PyObject* nb_inplace(PyObject* a, PyObject* b) {
  return inplace(S, a, b);
}
template <Slot& S>
PyObject* nb_unary(PyObject* a) {
  return unary(S, a);
}
PyObject* nb_power(PyObject* a, PyObject* b, PyObject* mod) {
  if (mod != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow() of a Tensor does not support a modulus");
    return nullptr;
  }
  return binary(pow_slot, a, b);
}
PyObject* nb_inplace_power(PyObject* a, PyObject* b, PyObject*) { return inplace(pow_slot, a, b); }
PyObject* nb_matmul(PyObject* a, PyObject* b) {
  if (is_tensor(a) && is_tensor(b)) [[likely]]
    return binary(matmul_slot, a, b);
  return guarded([&]() -> PyObject* {
    PyObject* const given[] = {a, b};
    refuse_torch("matmul", given, 2);
    Py_RETURN_NOTIMPLEMENTED;
  });
}

PyObject* nb_invert(PyObject* o) {
  if (!is_differentiable(unwrap(o).dtype())) return unary(not_slot, o);
  PyErr_SetString(PyExc_TypeError,
                  "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
  return nullptr;
}
PyObject* nb_negative(PyObject* o) {
  if (unwrap(o).dtype() != DType::Bool) return unary(neg_slot, o);
  PyErr_SetString(PyExc_RuntimeError,
                  "Negation, the `-` operator, on a bool tensor is not supported. If you are "
                  "trying to invert a mask, use the `~` or `logical_not()` operator instead.");
  return nullptr;
}
int nb_bool(PyObject* o) {
  return guarded_int([&] {
    const Tensor& t = unwrap(o);
    COGRAD_CHECK(t.numel() != 0, "Boolean value of Tensor with no values is ambiguous");
    COGRAD_CHECK(t.numel() == 1, "Boolean value of Tensor with more than one value is ambiguous");
    return is_true(t) ? 1 : 0;
  });
}
// Returns the element for int() and float(): torch raises ValueError here, RuntimeError in item().
Scalar only_element(PyObject* o) {
  COGRAD_CHECK_VALUE(unwrap(o).numel() == 1,
                     "only one element tensors can be converted to Python scalars, got ",
                     unwrap(o).numel(), " elements");
  return item(unwrap(o));
}
Scalar only_real_element(PyObject* o) {
  const Scalar s = only_element(o);
  COGRAD_CHECK(s.imag() == 0,
               "value cannot be converted to type double without overflow: the "
               "element is complex; convert .real, .imag or .abs() of the tensor instead");
  return s;
}
PyObject* integer_object(const Scalar& s) {
  return s.is_large() ? scalar_object(s) : PyLong_FromLongLong(s.to_int());
}
PyObject* nb_int(PyObject* o) {
  return guarded([&]() -> PyObject* {
    const Scalar s = only_real_element(o);
    if ((s.is_float() && !s.is_large()) || s.is_complex()) return PyLong_FromDouble(s.to_double());
    return integer_object(s);
  });
}
PyObject* nb_float(PyObject* o) {
  return guarded([&] { return PyFloat_FromDouble(only_real_element(o).to_double()); });
}
PyObject* nb_index(PyObject* o) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = unwrap(o);
    COGRAD_CHECK_TYPE(t.numel() == 1 && !is_differentiable(t.dtype()),
                      "only integer tensors of a single element can be converted to an index");
    return integer_object(item(t));
  });
}

const bool filled = [] {
  PyNumberMethods& n = tensor_number;
  n.nb_add = nb<add_slot>;
  n.nb_subtract = nb<sub_slot>;
  n.nb_multiply = nb<mul_slot>;
  n.nb_true_divide = nb<div_slot>;
  n.nb_floor_divide = nb<floor_slot>;
  n.nb_remainder = nb<rem_slot>;
  n.nb_power = nb_power;
  n.nb_matrix_multiply = nb_matmul;
  n.nb_and = nb<and_slot>;
  n.nb_or = nb<or_slot>;
  n.nb_xor = nb<xor_slot>;
  n.nb_lshift = nb<left_slot>;
  n.nb_rshift = nb<right_slot>;
  n.nb_inplace_add = nb_inplace<add_slot>;
  n.nb_inplace_subtract = nb_inplace<sub_slot>;
  n.nb_inplace_multiply = nb_inplace<mul_slot>;
  n.nb_inplace_true_divide = nb_inplace<div_slot>;
  n.nb_inplace_floor_divide = nb_inplace<floor_slot>;
  n.nb_inplace_remainder = nb_inplace<rem_slot>;
  n.nb_inplace_power = nb_inplace_power;
  n.nb_inplace_and = nb_inplace<and_slot>;
  n.nb_inplace_or = nb_inplace<or_slot>;
  n.nb_inplace_xor = nb_inplace<xor_slot>;
  n.nb_inplace_lshift = nb_inplace<left_slot>;
  n.nb_inplace_rshift = nb_inplace<right_slot>;
  n.nb_negative = nb_negative;
  n.nb_positive = nb_unary<pos_slot>;
  n.nb_absolute = nb_unary<abs_slot>;
  n.nb_invert = nb_invert;
  n.nb_bool = nb_bool;
  n.nb_int = nb_int;
  n.nb_float = nb_float;
  n.nb_index = nb_index;
  return true;
}();

}  // namespace

PyObject* tensor_richcompare(PyObject* a, PyObject* b, int op) {
  // Compare with NumPy arrays element by element: Python would compare identities.
  if (is_ndarray(b)) [[unlikely]] {
    return guarded([&] {
      const auto other = py::reinterpret_steal<py::object>(wrap(copy_of_ndarray("compare", b)));
      return tensor_richcompare(a, other.ptr(), op);
    });
  }
  switch (op) {
    case Py_EQ:
      return binary(eq_slot, a, b);
    case Py_NE:
      return binary(ne_slot, a, b);
    case Py_LT:
      return binary(lt_slot, a, b);
    case Py_LE:
      return binary(le_slot, a, b);
    case Py_GT:
      return binary(gt_slot, a, b);
    default:
      return binary(ge_slot, a, b);
  }
}

}  // namespace cograd::python
