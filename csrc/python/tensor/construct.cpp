// SPDX-License-Identifier: BSD-3-Clause
// Builds tensors from Python data: tensor(), as_tensor(), new_tensor().
#include <cmath>
#include <limits>

#include "autograd/modes/inference.h"
#include "ops/compute/promote.h"
#include "ops/compute/scalars.h"
#include "python/exchange/interop.h"
#include "python/runtime/held.h"

namespace cograd::python {

namespace {

enum class Kind : uint8_t { Scalar, List, Sequence, Array, Tensor, Text };

Kind kind_of(PyObject* o) noexcept {
  if (PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o)) return Kind::Scalar;
  if (PyList_Check(o) || PyTuple_Check(o)) return Kind::List;
  if (is_tensor(o)) return Kind::Tensor;
  if (PyUnicode_Check(o) || PyBytes_Check(o)) return Kind::Text;
  if (is_ndarray(o)) return Kind::Array;
  if (is_numpy_scalar(o) || !PySequence_Check(o)) return Kind::Scalar;
  return Kind::Sequence;
}

// Reads the items of any sequence. A list is not copied: each item is looked up when it is reached
// and held while it is read, because reading it may run code that changes the list.
class Items {
 public:
  explicit Items(PyObject* o)
      : fast_(PyList_Check(o) || PyTuple_Check(o) ? py::reinterpret_borrow<py::object>(o)
                                                  : held_sequence(o)) {}
  Py_ssize_t size() const noexcept { return PySequence_Fast_GET_SIZE(fast_.ptr()); }
  PyObject* operator[](Py_ssize_t i) const noexcept {
    return PySequence_Fast_ITEMS(fast_.ptr())[i];
  }

 private:
  py::object fast_;
};

// Infers the shape from the first item at each depth; the other items are checked when they are
// read.
void find_sizes(const char* op, PyObject* data, Dims& sizes) {
  py::object x = py::reinterpret_borrow<py::object>(data);
  for (;;) {
    const Kind k = kind_of(x.ptr());
    const char* type = Py_TYPE(x.ptr())->tp_name;
    if (k == Kind::Text) {
      COGRAD_CHECK_TYPE(!sizes.empty(), op, "(): invalid data type '", type, "'");
      detail::fail(ErrorKind::Value, op, "(): too many dimensions '", type, "'");
    }
    if (k == Kind::Array) {
      const Dims inner = ndarray_sizes(x.ptr());
      sizes.append(inner.begin(), inner.end());
    }
    COGRAD_CHECK_VALUE(sizes.size() < kMaxDims, op, "(): too many dimensions '", type, "'");
    if (k != Kind::List && k != Kind::Sequence) return;
    const Py_ssize_t n = PySequence_Size(x.ptr());
    if (n < 0) throw_python_error();
    sizes.push_back(n);
    if (n == 0) return;
    x = py::reinterpret_steal<py::object>(PySequence_GetItem(x.ptr(), 0));
    if (!x) throw_python_error();
  }
}

class Inferred {
 public:
  explicit Inferred(const char* op) : op_(op) {}
  void visit(PyObject* o, int depth = 0) {
    if (PyFloat_CheckExact(o)) return add(default_dtype());
    if (PyLong_CheckExact(o)) return add(DType::Int64);
    if (PyBool_Check(o)) return add(DType::Bool);
    switch (kind_of(o)) {
      case Kind::Tensor:
        return add(unwrap(o).dtype());
      case Kind::Array:
        return add(numpy_dtype(o));
      case Kind::Scalar:
        return add(scalar_type(o));
      case Kind::Text:
        detail::fail(ErrorKind::Type, op_, "(): invalid data type '", Py_TYPE(o)->tp_name, "'");
      case Kind::List:
      case Kind::Sequence:
        break;
    }
    COGRAD_CHECK_VALUE(depth <= kMaxDims, op_, "(): too many dimensions '", Py_TYPE(o)->tp_name,
                       "'");
    const Items items(o);
    if (items.size() == 0) add(default_dtype());
    for (Py_ssize_t i = 0; i < items.size(); ++i) {
      PyObject* x = items[i];
      if (PyFloat_CheckExact(x)) {
        add(default_dtype());
        continue;
      }
      const py::object hold = py::reinterpret_borrow<py::object>(x);
      visit(x, depth + 1);
    }
  }
  DType get() const noexcept { return dtype_; }

 private:
  void add(DType t) noexcept {
    if (any_ && t == dtype_) return;
    dtype_ = any_ ? promote_types(dtype_, t) : t;
    any_ = true;
  }
  DType scalar_type(PyObject* o) const {
    if (is_numpy_scalar(o)) return numpy_dtype(o);
    if (PyFloat_Check(o)) return default_dtype();
    if (PyComplex_Check(o)) return complex_dtype(default_dtype());
    COGRAD_CHECK(PyLong_Check(o), op_, "(): Could not infer dtype of ", Py_TYPE(o)->tp_name);
    return DType::Int64;
  }
  const char* op_;
  DType dtype_ = DType::Bool;
  bool any_ = false;
};

Scalar tensor_item(const char* op, PyObject* o) {
  const Tensor& t = unwrap(o);
  COGRAD_CHECK_VALUE(t.numel() == 1, op,
                     "(): only one element tensors can be converted to Python scalars, got shape ",
                     to_string(t.sizes()));
  if (requires_grad(t) &&
      PyErr_WarnEx(PyExc_UserWarning,
                   "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
                   "behavior. Consider using tensor.detach() first.",
                   1) < 0)
    throw_python_error();
  return item(t);
}

Complex<double> complex_value(const char* op, PyObject* o) {
  if (is_tensor(o)) return tensor_item(op, o).to_complex();
  const Py_complex v = PyComplex_AsCComplex(o);
  if (v.real == -1.0 && PyErr_Occurred()) throw_python_error();
  return {v.real, v.imag};
}

double real_value(const char* op, PyObject* o) {
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (is_tensor(o)) {
    const Scalar s = tensor_item(op, o);
    COGRAD_CHECK(s.imag() == 0, op, "(): a complex tensor cannot be converted to a real number");
    return s.to_double();
  }
  const double v = PyLong_Check(o) ? PyLong_AsDouble(o) : PyFloat_AsDouble(o);
  if (v == -1.0 && PyErr_Occurred()) throw_python_error();
  return v;
}

// Reads a scalar for an integer or bool tensor. Returns a Float Scalar only if `o` is a float.
Scalar integer_value(const char* op, PyObject* o) {
  if (PyBool_Check(o)) return Scalar(o == Py_True);
  if (PyFloat_Check(o)) return Scalar(PyFloat_AS_DOUBLE(o));
  if (is_tensor(o)) return tensor_item(op, o);
  const bool numpy_bool = std::string_view(Py_TYPE(o)->tp_name).starts_with("numpy.bool");
  if (numpy_bool || (!PyLong_Check(o) && !PyIndex_Check(o) && is_numpy_scalar(o))) {
    Scalar s;
    if (parse_scalar(o, &s)) return s;
  }
  const py::object n = py::reinterpret_steal<py::object>(PyNumber_Index(o));
  if (!n) throw_python_error();
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(n.ptr(), &overflow);
  if (Scalar large; overflow > 0 && parse_large(n.ptr(), &large)) return large;
  COGRAD_CHECK_VALUE(overflow == 0, op,
                     "(): Overflow when unpacking long long: the integer does "
                     "not fit in 64 bits");
  return Scalar(v);
}

[[noreturn, gnu::cold]] void fail_overflow(const char* op, const Scalar& s, DType t) {
  COGRAD_CHECK_VALUE(!s.is_large(), op,
                     "(): Overflow when unpacking long long: the integer does not fit dtype ",
                     dtype_name(t));
  fail_number(op, "value", s, t);
}

// Converts `s` or raises. Negative values wrap around in unsigned types if their magnitude fits,
// as in torch.
template <class T>
T narrow(const char* op, const Scalar& s) {
  using L = std::numeric_limits<T>;
  constexpr bool kLargest = !L::is_signed && sizeof(T) == 8;
  constexpr int64_t high = kLargest ? INT64_MAX : static_cast<int64_t>(L::max());
  constexpr int64_t low = L::is_signed ? static_cast<int64_t>(L::min()) : -high;
  if (s.is_large()) {
    if (!kLargest) fail_overflow(op, s, dtype_of<T>);
    return static_cast<T>(s.to_int());
  }
  if (s.is_float()) {
    const double v = std::trunc(s.to_double());
    // 2^63 is exact as a double, the largest int64 is not.
    const double end = std::ldexp(1.0, L::digits);
    if (!(v < end && v >= static_cast<double>(low))) fail_overflow(op, s, dtype_of<T>);
    if (v >= 0) return static_cast<T>(static_cast<uint64_t>(v));
    return static_cast<T>(static_cast<int64_t>(v));
  }
  const int64_t v = s.to_int();
  if (v < low || v > high) fail_overflow(op, s, dtype_of<T>);
  return static_cast<T>(v);
}

template <class T>
T value_of(const char* op, PyObject* o) {
  if constexpr (is_complex_type<T>) {
    return T(complex_value(op, o));
  } else if constexpr (std::is_same_v<T, bool>) {
    if (PyComplex_Check(o)) return PyObject_IsTrue(o) == 1;
    if (PyLong_Check(o)) return PyObject_IsTrue(o) == 1;
    return integer_value(op, o).to_bool();
  } else if constexpr (std::is_integral_v<T>) {
    return narrow<T>(op, integer_value(op, o));
  } else if constexpr (std::is_same_v<T, double>) {
    return real_value(op, o);
  } else {
    return T(static_cast<float>(real_value(op, o)));
  }
}

template <class T>
class Filler {
 public:
  Filler(const char* op, const Tensor& out) : op_(op), out_(out), p_(out.data<T>()) {}
  void fill(PyObject* o, size_t d) {
    const size_t dims = out_.sizes().size();
    if (d == dims) {
      *p_++ = value_of<T>(op_, o);
      return;
    }
    if (is_ndarray(o)) return copy_array(o, d);
    const Kind k = kind_of(o);
    COGRAD_CHECK_TYPE(k == Kind::List || k == Kind::Sequence, op_,
                      "(): expected sequence of length ", out_.size(static_cast<int>(d)),
                      " at dim ", d, " (got ", Py_TYPE(o)->tp_name, ", not a sequence)");
    const Items items(o);
    const Py_ssize_t n = items.size();
    COGRAD_CHECK_VALUE(n == out_.size(static_cast<int>(d)), "expected sequence of length ",
                       out_.size(static_cast<int>(d)), " at dim ", d, " (got ", n, ")");
    for (Py_ssize_t i = 0; i < n; ++i) {
      COGRAD_CHECK(items.size() == n, op_, "(): the sequence changed its length while it was read");
      PyObject* x = items[i];
      if (d + 1 == dims) {
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
          if (PyFloat_CheckExact(x)) {
            *p_++ = static_cast<T>(PyFloat_AS_DOUBLE(x));
            continue;
          }
        }
      }
      const py::object hold = py::reinterpret_borrow<py::object>(x);
      fill(x, d + 1);
    }
  }

 private:
  void copy_array(PyObject* o, size_t d) {
    Tensor part = copy_of_ndarray(op_, o);
    // Compare the copy's sizes, not the array's: the array may change.
    const IntList expected = out_.sizes().subspan(d);
    COGRAD_CHECK_VALUE(same(part.sizes(), expected), op_, "(): expected an array of shape ",
                       to_string(expected), " at dim ", d, " (got ", to_string(part.sizes()), ")");
    {
      const GradGuard no_grad(false);
      part = autograd_ops.contiguous_clone(autograd_ops.cast(part, out_.dtype()));
    }
    std::copy_n(part.data<T>(), part.numel(), p_);
    p_ += part.numel();
  }
  const char* op_;
  const Tensor& out_;
  T* p_;
};

// Returns the array from `o.__array__()` for an object that is no tensor, scalar or sequence; null
// if it has none.
py::object array_of(PyObject* o) {
  if (PyFloat_Check(o) || PyLong_Check(o) || kind_of(o) != Kind::Scalar || is_numpy_scalar(o))
    return {};
  const py::handle h(o);
  if (PyType_Check(o) || !py::hasattr(h, "__array__")) return {};
  py::object array = h.attr("__array__")();
  if (!is_ndarray(array.ptr())) return {};
  return array;
}

// Returns the tensor over the GPU's memory that the object describes; none if it does not.
Tensor cuda_array_of(const char* op, PyObject* o) {
  constexpr const char* kName = "__cuda_array_interface__";
  if (kind_of(o) != Kind::Scalar || PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o) ||
      PyType_Check(o) || !py::hasattr(py::handle(o), kName))
    return {};
  return tensor_from_cuda_array(op, py::reinterpret_borrow<py::object>(o),
                                py::cast<py::dict>(py::handle(o).attr(kName)));
}

struct Options {
  PyObject* data = nullptr;
  std::optional<DType> dtype;
  std::optional<Device> device;
  bool requires_grad = false;
  bool pin = false;  // into pinned memory
};

bool is_key(PyObject* key, const char* name) {
  return PyUnicode_CompareWithASCIIString(key, name) == 0;
}

void parse_option(const char* op, PyObject* key, PyObject* value, bool grad, Options& o) {
  if (is_key(key, "dtype")) {
    if (value == Py_None) return;
    DType t;
    COGRAD_CHECK_TYPE(parse_dtype(value, &t), op, "(): argument 'dtype' must be cograd.dtype, not ",
                      Py_TYPE(value)->tp_name);
    o.dtype = t;
  } else if (is_key(key, "device")) {
    if (value == Py_None) return;
    Device d;
    COGRAD_CHECK_TYPE(parse_device(value, &d), op,
                      "(): argument 'device' must be cograd.device or str, not ",
                      Py_TYPE(value)->tp_name);
    o.device = d;
  } else if (grad && is_key(key, "requires_grad")) {
    COGRAD_CHECK_TYPE(PyBool_Check(value), op, "(): argument 'requires_grad' must be bool, not ",
                      Py_TYPE(value)->tp_name);
    o.requires_grad = value == Py_True;
  } else if (grad && is_key(key, "pin_memory")) {
    COGRAD_CHECK_TYPE(PyBool_Check(value), op, "(): argument 'pin_memory' must be bool, not ",
                      Py_TYPE(value)->tp_name);
    o.pin = value == Py_True;
  } else if (is_key(key, "data") && o.data == nullptr) {
    o.data = value;
  } else {
    const char* text = PyUnicode_AsUTF8(key);
    detail::fail(ErrorKind::Type, op, "() got ",
                 is_key(key, "data") ? "multiple values for" : "an unexpected keyword",
                 " argument '", text != nullptr ? text : "?", "'");
  }
}

Options parse_options(const char* op, PyObject* const* args, Py_ssize_t n, PyObject* kwnames,
                      bool grad) {
  Options o;
  COGRAD_CHECK_TYPE(n <= 1, op, "() takes 1 positional argument but ", n, " were given");
  if (n == 1) o.data = args[0];
  const Py_ssize_t named = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < named; ++i)
    parse_option(op, PyTuple_GET_ITEM(kwnames, i), args[n + i], grad, o);
  COGRAD_CHECK_TYPE(o.data != nullptr, op, "() missing 1 required positional argument: 'data'");
  return o;
}

void warn_copy_construct(const char* what) {
  const std::string text = detail::concat(
      "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
      "sourceTensor.detach().clone().requires_grad_(True), rather than ",
      what, "(sourceTensor).");
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw_python_error();
}

PyObject* make(const char* op, const char* shown, const Options& o, Device otherwise) {
  if (is_tensor(o.data)) warn_copy_construct(shown);
  Tensor t = tensor_from_data(op, o.data, o.dtype);
  if (is_tensor(o.data)) otherwise = unwrap(o.data)->device;
  if (t->device != kHost) otherwise = t->device;
  t = to_device(t, o.device.value_or(otherwise));
  if (o.pin) t = pinned_copy(t, op);
  if (makes_inference_tensors()) t->flags |= kInference;
  if (o.requires_grad) set_requires_grad(t, true);
  return wrap(std::move(t));
}

PyObject* py_tensor(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    return make("tensor", "cograd.tensor", parse_options("tensor", args, n, kwnames, true),
                thread_place.by_default);
  });
}

PyObject* method_new_tensor(PyObject* self, PyObject* const* args, Py_ssize_t n,
                            PyObject* kwnames) {
  return guarded([&] {
    Options o = parse_options("new_tensor", args, n, kwnames, true);
    if (!o.dtype) o.dtype = unwrap(self).dtype();
    return make("new_tensor", "tensor.new_tensor", o, unwrap(self)->device);
  });
}

PyObject* py_as_tensor(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Options o = parse_options("as_tensor", args, n, kwnames, false);
    Tensor t;
    if (is_tensor(o.data)) {
      t = unwrap(o.data);
    } else if (is_ndarray(o.data)) {
      t = tensor_from_ndarray("as_tensor", o.data);
    } else if ((t = cuda_array_of("as_tensor", o.data)).defined()) {
      if (o.device) t = to_device(t, *o.device);
    } else {
      t = tensor_from_data("as_tensor", o.data, o.dtype);
      return wrap(to_device(t, o.device.value_or(thread_place.by_default)));
    }
    if (o.device || is_ndarray(o.data))
      t = to_device(t, o.device.value_or(thread_place.by_default));
    if (o.dtype && *o.dtype != t.dtype()) t = autograd_ops.cast(t, *o.dtype);
    return wrap(std::move(t));
  });
}

}  // namespace

Tensor fresh_copy(const Tensor& t, std::optional<DType> dtype) {
  const GradGuard no_grad(false);
  const Tensor plain = detach(t);
  if (dtype && *dtype != t.dtype()) return autograd_ops.cast(plain, *dtype);
  return autograd_ops.clone(plain);
}

Tensor tensor_from_data(const char* op, PyObject* data, std::optional<DType> dtype) {
  if (is_tensor(data)) return fresh_copy(unwrap(data), dtype);
  if (is_ndarray(data)) {
    Tensor t = copy_of_ndarray(op, data);
    if (dtype && *dtype != t.dtype()) return fresh_copy(t, dtype);
    return t;
  }
  if (const Tensor t = cuda_array_of(op, data); t.defined()) return fresh_copy(t, dtype);
  if (const py::object array = array_of(data)) return tensor_from_data(op, array.ptr(), dtype);
  Dims sizes;
  find_sizes(op, data, sizes);
  DType t;
  if (dtype) {
    t = *dtype;
  } else {
    Inferred inferred(op);
    inferred.visit(data);
    t = inferred.get();
  }
  Tensor out = empty_checked(op, sizes, t);
  dispatch_values(t,
                  [&](auto tag) { Filler<typename decltype(tag)::type>(op, out).fill(data, 0); });
  return out;
}

void init_construct(py::module_& m) {
  static PyMethodDef functions[] = {
      {"tensor", COGRAD_FASTCALL(py_tensor), METH_FASTCALL | METH_KEYWORDS,
       "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)\n--\n\n"
       "Makes a leaf tensor with a copy of data: a scalar, nested sequences, an array or a "
       "tensor."},
      {"as_tensor", COGRAD_FASTCALL(py_as_tensor), METH_FASTCALL | METH_KEYWORDS,
       "as_tensor(data, *, dtype=None, device=None)\n--\n\n"
       "Returns data as a tensor; copies only if data is no tensor or array of that dtype."},
      {nullptr, nullptr, 0, nullptr}};
  static PyMethodDef methods[] = {
      {"new_tensor", COGRAD_FASTCALL(method_new_tensor), METH_FASTCALL | METH_KEYWORDS,
       "new_tensor($self, data, *, dtype=None, device=None, requires_grad=False, "
       "pin_memory=False)\n--\n\n"
       "Makes a new leaf tensor with a copy of data, by default with this tensor's dtype."},
      {nullptr, nullptr, 0, nullptr}};
  add_functions(m, functions);
  add_methods(methods);
}

}  // namespace cograd::python
