// SPDX-License-Identifier: BSD-3-Clause
// Tensors as Python containers and values: tolist, iteration, membership, type queries.
#include <algorithm>

#include "ops/compute/promote.h"
#include "ops/declare/device_stage.h"
#include "python/exchange/interop.h"
#include "python/ops/call.h"
#include "tensor/sparse.h"

namespace cograd::python {

namespace {

template <class T>
PyObject* number_object(T v) {
  if constexpr (std::is_same_v<T, bool>)
    return PyBool_FromLong(v);
  else if constexpr (std::is_same_v<T, uint64_t>)
    return PyLong_FromUnsignedLong(v);
  else if constexpr (std::is_integral_v<T>)
    return PyLong_FromLongLong(v);
  else if constexpr (is_complex_type<T>)
    return PyComplex_FromDoubles(static_cast<double>(v.re), static_cast<double>(v.im));
  else
    return PyFloat_FromDouble(static_cast<double>(v));
}

// Reads a bool as a byte: uninitialised memory (torch.empty) may hold bytes that are no valid bool.
template <class T>
PyObject* element_object(const T* p) {
  if constexpr (std::is_same_v<T, bool>)
    return PyBool_FromLong(*reinterpret_cast<const unsigned char*>(p));
  else
    return number_object(*p);
}

template <class T>
py::object nested_list(const Tensor& t, const T* p, int dim) {
  if (dim == t.dim()) {
    PyObject* o = element_object(p);
    if (o == nullptr) throw_python_error();
    return py::reinterpret_steal<py::object>(o);
  }
  const int64_t n = t.size(dim);
  const int64_t step = t.stride(dim);
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(n));
  if (list == nullptr) throw_python_error();
  py::object hold = py::reinterpret_steal<py::object>(list);
  const bool last = dim + 1 == t.dim();
  for (int64_t i = 0; i < n; ++i, p += step) {
    PyObject* o = last ? element_object(p) : nested_list(t, p, dim + 1).release().ptr();
    if (o == nullptr) throw_python_error();
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), o);
  }
  return hold;
}

PyObject* method_tolist(PyObject* self, PyObject*) {
  return guarded([&] {
    check_one_value(unwrap(self), "tolist()");
    check_not_sparse(unwrap(self), "tolist()");
    before_read(unwrap(self), "tolist()");
    const Tensor whole = to_device(unwrap(self), kHost);
    const Tensor t = Tensor::steal(whole->alias());  // nobody else can set its data
    return dispatch_values(t.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      return nested_list(t, t.data<T>(), 0).release().ptr();
    });
  });
}

// Returns the elements in row-major order as Python numbers.
py::list flat_list(const Tensor& t) {
  const GradGuard no_grad(false);
  check_readable(t, "iteration over values");
  const Tensor dense = autograd_ops.contiguous_clone(detach(t));
  const int64_t n = dense.numel();
  const int64_t one = 1;
  dense->storage->retain();
  const Tensor flat =
      tensor_of_storage(dense->storage, dense.dtype(), {&n, 1}, {&one, 1}, dense.bytes());
  return dispatch_values(flat.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return py::reinterpret_steal<py::list>(nested_list(flat, flat.data<T>(), 0).release());
  });
}

bool result_operand(PyObject* o, ResultType& r) {
  if (is_tensor(o)) {
    r.add(unwrap(o));
    return true;
  }
  Scalar s;
  if (!parse_scalar(o, &s)) return false;
  r.add(s);
  return true;
}

py::object py_result_type(py::handle a, py::handle b) {
  ResultType r;
  for (const py::handle& x : {a, b})
    COGRAD_CHECK_TYPE(result_operand(x.ptr(), r),
                      "result_type(): expected Tensors or numbers, got ",
                      Py_TYPE(x.ptr())->tp_name);
  return py::reinterpret_borrow<py::object>(dtype_object(r.get()));
}

DType dtype_argument(const char* op, const char* name, int position, py::handle o) {
  DType t;
  COGRAD_CHECK_TYPE(parse_dtype(o.ptr(), &t), op, "(): argument '", name, "' (position ", position,
                    ") must be cograd.dtype, not ", Py_TYPE(o.ptr())->tp_name);
  return t;
}

}  // namespace

PyObject* tensor_get_dict(PyObject* o, void* context) {
  ensure_tracked(o);  // attributes written through the dict may form cycles
  return PyObject_GenericGetDict(o, context);
}
int tensor_set_dict(PyObject* o, PyObject* value, void* context) {
  ensure_tracked(o);
  return PyObject_GenericSetDict(o, value, context);
}

PyObject* tensor_iter(PyObject* self) {
  static const OpRecord* unbind = find_op("unbind");
  return guarded([&]() -> PyObject* {
    COGRAD_CHECK_TYPE(unwrap(self).dim() > 0, "iteration over a 0-d tensor");
    COGRAD_CHECK_NOT_IMPLEMENTED(unbind != nullptr, "iteration needs the op unbind");
    Value args[8];
    args[0] = tensor_value(unwrap(self));
    for (size_t i = 1; i < unbind->args.size(); ++i) args[i] = unbind->args[i].default_value;
    Result result;
    call_plain(unbind, args, result);
    const py::object rows = py::reinterpret_steal<py::object>(wrap_result(unbind, result));
    return PyObject_GetIter(rows.ptr());
  });
}

int tensor_contains(PyObject* self, PyObject* value) {
  static const OpRecord* eq = find_op("eq");
  return guarded_int([&] {
    Value v;
    if (is_tensor(value)) {
      v = tensor_value(unwrap(value));
    } else {
      Scalar s;
      COGRAD_CHECK(parse_scalar(value, &s),
                   "Tensor.__contains__ only supports Tensor or scalar, but you passed in a ",
                   py::cast<std::string>(py::str(py::type::of(py::handle(value)))), ".");
      v = scalar_value(s);
    }
    const Tensor& t = unwrap(self);  // not earlier: reading the value may run code
    check_one_value(t, "`in`");
    check_not_sparse(t, "`in`");
    if (t->device.type == DeviceType::Meta) fail_unreadable(t->device, "`in`");
    const Tensor found = to_device(call_op(eq, {tensor_value(t), v}), kHost);
    const char* p = found.bytes();
    return std::any_of(p, p + found.numel(), [](char c) { return c != 0; }) ? 1 : 0;
  });
}

void init_protocols(py::module_& m) {
  static PyMethodDef methods[] = {
      {"tolist", method_tolist, METH_NOARGS,
       "tolist($self, /)\n--\n\nReturns the elements as nested lists; a number if dim is 0."},
      {nullptr, nullptr, 0, nullptr}};
  add_methods(methods);
  m.def("_flat_list", &flat_list, "Returns the elements in row-major order.");
  m.def("result_type", &py_result_type, py::arg("tensor1"), py::arg("tensor2"),
        "Returns the dtype of arithmetic between the two operands.");
  m.def(
      "promote_types",
      [](py::handle a, py::handle b) {
        const DType t = promote_types(dtype_argument("promote_types", "type1", 1, a),
                                      dtype_argument("promote_types", "type2", 2, b));
        return py::reinterpret_borrow<py::object>(dtype_object(t));
      },
      py::arg("type1"), py::arg("type2"), "Returns the smallest dtype that holds both.");
  m.def(
      "can_cast",
      [](py::handle from, py::handle to) {
        return can_cast(dtype_argument("can_cast", "from_", 1, from),
                        dtype_argument("can_cast", "to", 2, to));
      },
      py::arg("from_"), py::arg("to"),
      "True if a result of one dtype may be written to the other.");
}

}  // namespace cograd::python
