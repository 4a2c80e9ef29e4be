// SPDX-License-Identifier: BSD-3-Clause
// Attributes and hand-written methods of Tensor.
#include <chrono>
#include <thread>

#include "autograd/run/backward_job.h"
#include "ops/compute/resize.h"
#include "ops/compute/strides.h"
#include "python/autograd/nodes.h"
#include "python/ops/call.h"
#include "python/ops/overrides.h"
#include "tensor/sparse.h"

namespace cograd::python {

namespace {

PyObject* truth(bool b) { return PyBool_FromLong(b); }

PyObject* get_shape(PyObject* o, void*) {
  return guarded([&] { return size_object(unwrap(o).sizes()); });
}
PyObject* get_dtype(PyObject* o, void*) {
  PyObject* d = dtype_object(unwrap(o).dtype());
  Py_INCREF(d);
  return d;
}
template <DeviceType kType>
PyObject* get_is_on(PyObject* o, void*) {
  return truth(unwrap(o)->device.type == kType);
}
PyObject* get_device(PyObject* o, void*) {
  return guarded([&] { return device_object(unwrap(o)->device); });
}
PyObject* get_ndim(PyObject* o, void*) { return PyLong_FromLong(unwrap(o).dim()); }
PyObject* get_requires_grad(PyObject* o, void*) { return truth(requires_grad(unwrap(o))); }
PyObject* get_is_concerned(PyObject* o, void*) {
  const Tensor& t = unwrap(o);
  if (is_batched(t)) return PyLong_FromLong(4);
  if (transformed(t)) return PyLong_FromLong(2);
  return PyLong_FromLong(thread_state.grad_enabled && requires_grad(t) ? 1 : 0);
}
int set_requires_grad_attr(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    COGRAD_CHECK(value != nullptr && PyBool_Check(value), "requires_grad must be a bool");
    set_requires_grad(unwrap(o), value == Py_True);
    if (value == Py_True) ensure_tracked(o);
    return 0;
  });
}
PyObject* get_is_leaf(PyObject* o, void*) {
  return guarded([&] { return truth(is_leaf(unwrap(o))); });
}
PyObject* get_grad_fn(PyObject* o, void*) {
  return guarded([&] { return node_object(grad_fn(unwrap(o).impl())); });
}
PyObject* get_output_nr(PyObject* o, void*) {
  return guarded([&] {
    grad_fn(unwrap(o).impl());
    return PyLong_FromUnsignedLong(unwrap(o)->output_nr);
  });
}
PyObject* get_version(PyObject* o, void*) {
  if ((unwrap(o)->flags & kInference) != 0) {
    PyErr_SetString(PyExc_RuntimeError, "Inference tensors do not track version counter.");
    return nullptr;
  }
  return PyLong_FromUnsignedLong(unwrap(o)->write_count());
}
PyObject* get_base(PyObject* o, void*) {
  return guarded([&] {
    PyObject* base = wrap(Tensor::borrow(unwrap(o)->base));
    if (base != Py_None) ensure_tracked(base);  // its views may be written
    return base;
  });
}
PyObject* get_retains_grad(PyObject* o, void*) {
  return truth((unwrap(o)->flags & kRetainsGrad) != 0);
}

PyObject* get_grad(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& handle = unwrap(o);
    const Tensor& t = physical_tensor(handle);
    Tensor grad = grad_of(t.impl());
    if (is_batched(handle) && grad.defined()) return wrap(batched_like(handle, grad));
    if (!grad.defined()) {
      if (t->grad_fn != nullptr && (t->flags & kRetainsGrad) == 0 &&
          PyErr_WarnEx(PyExc_UserWarning,
                       "The .grad attribute of a Tensor that is not a leaf Tensor is being "
                       "accessed. Its .grad attribute won't be populated during "
                       "autograd.backward(). If you indeed want the .grad field to be populated "
                       "for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.",
                       1) < 0)
        return nullptr;
      Py_RETURN_NONE;
    }
    return wrap(std::move(grad));
  });
}
int set_grad(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    const Tensor& t = unwrap(o);
    if (value == nullptr || value == Py_None) {
      set_gradient(t, Tensor());
      return 0;
    }
    if (!is_tensor(value)) refuse_torch("grad", &value, 1);
    COGRAD_CHECK_TYPE(is_tensor(value),
                      "assigned grad expected to be a Tensor or None but got grad of type ",
                      Py_TYPE(value)->tp_name);
    set_gradient(t, unwrap(value));
    ensure_tracked(o);
    return 0;
  });
}
PyObject* get_data(PyObject* o, void*) {
  return guarded([&] { return wrap(variable_data(unwrap(o))); });
}
// Waits until no call on another thread uses `t`: such a call may read it without the GIL.
void wait_for_calls(const Tensor& t, const char* what) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (in_use_elsewhere(t.impl())) {
    COGRAD_CHECK(Clock::now() < end, what,
                 ": the tensor is an argument of a call on another thread, which has not ended in "
                 "10 seconds");
    {
      const py::gil_scoped_release released;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (PyErr_CheckSignals() != 0) throw_python_error();
  }
}
// Implements `t.data = other`: takes over the memory and geometry of `other`; keeps identity and
// autograd state.
int set_data(PyObject* o, PyObject* value, void*) {
  return guarded_int([&] {
    COGRAD_CHECK(value != nullptr, "Deleting tensor data is not allowed. Delete tensor instead!");
    if (!is_tensor(value)) refuse_torch("data", &value, 1);
    COGRAD_CHECK_TYPE(is_tensor(value), "Variable data has to be a tensor, but got ",
                      Py_TYPE(value)->tp_name);
    const Tensor& t = unwrap(o);
    const Tensor& s = unwrap(value);
    COGRAD_CHECK(t.dtype() == s.dtype() || !requires_grad(t) || is_differentiable(s.dtype()),
                 "data set to a tensor that requires gradients must be floating point or complex "
                 "dtype");
    wait_for_calls(t, "x.data = y");
    cograd::set_data(t, s);
    return 0;
  });
}
PyObject* get_layout(PyObject*, void*) {
  return guarded([] {
    static PyObject* strided = nullptr;  // no static initialiser: an import lets threads run
    if (strided == nullptr)
      strided = py::object(py::module_::import("cograd").attr("strided")).release().ptr();
    return Py_NewRef(strided);
  });
}
PyObject* get_names_none(PyObject*, void*) { Py_RETURN_NONE; }
PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }
PyObject* get_itemsize(PyObject* o, void*) { return PyLong_FromLongLong(unwrap(o).itemsize()); }
PyObject* get_nbytes(PyObject* o, void*) {
  const int64_t item = unwrap(o).itemsize(), n = unwrap(o).numel();
  int64_t bytes = 0;
  if (!__builtin_mul_overflow(item, n, &bytes)) return PyLong_FromLongLong(bytes);
  return guarded([&] { return (py::int_(item) * py::int_(n)).release().ptr(); });
}
PyObject* get_is_inference(PyObject* o, PyObject*) {
  return truth((unwrap(o)->flags & kInference) != 0);
}

constexpr char kT[] = "_T";
constexpr char kMT[] = "_mT";
constexpr char kH[] = "_H";
constexpr char kMH[] = "_mH";

template <const char* Name>
PyObject* get_by_op(PyObject* o, void*) {
  static const OpRecord* record = find_op(Name);
  return guarded([&]() -> PyObject* {
    if (record == nullptr) detail::fail(ErrorKind::NotImplemented, Name);
    PyObject* other = nullptr;
    if (overrides_possible && overridden_getter(Name == kT    ? "T"
                                                : Name == kMH ? "mH"
                                                              : "mT",
                                                o, &other)) [[unlikely]]
      return other;
    if (Name == kT && unwrap(o).dim() != 2 && unwrap(o).dim() != 0 &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "The use of `x.T` on tensors of dimension other than 2 to reverse their "
                     "shape is deprecated. Use `x.mT` to transpose batches of matrices or "
                     "`x.permute(*range(x.ndim - 1, -1, -1))` to reverse the dimensions.",
                     1) < 0)
      return nullptr;
    return wrap(call_op(record, {tensor_value(unwrap(o))}));
  });
}

PyObject* method_size(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = unwrap(o);
    const Py_ssize_t given = n + (kwnames != nullptr ? PyTuple_GET_SIZE(kwnames) : 0);
    if (given == 0 || args[0] == Py_None) return size_object(t.sizes());
    int64_t d;
    COGRAD_CHECK_TYPE(given == 1 && parse_int(args[0], &d), "size(): expected an int dim, got ",
                      Py_TYPE(args[0])->tp_name);
    COGRAD_CHECK_INDEX(t.dim() > 0, "Dimension specified as ", d, " but tensor has no dimensions");
    return PyLong_FromLongLong(t.size(wrap_dim(d, t.dim())));
  });
}
PyObject* method_stride(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = unwrap(o);
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    COGRAD_CHECK_TYPE(n + named <= 1, "stride() takes at most 1 argument (", n + named, " given)");
    COGRAD_CHECK_TYPE(
        named == 0 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "dim") == 0,
        "stride() got an unexpected keyword argument; expected dim");
    n += named;
    if (n == 1 && args[0] != Py_None) {
      int64_t d;
      COGRAD_CHECK_TYPE(parse_int(args[0], &d), "stride(): expected an int dim");
      return PyLong_FromLongLong(t.stride(wrap_dim(d, t.dim())));
    }
    const Dims strides(t.strides());  // making the tuple may run code that sets the data
    py::tuple out(strides.size());
    for (size_t i = 0; i < strides.size(); ++i) out[i] = strides[i];
    return out.release().ptr();
  });
}
PyObject* method_dim(PyObject* o, PyObject*) { return PyLong_FromLong(unwrap(o).dim()); }
PyObject* method_numel(PyObject* o, PyObject*) { return PyLong_FromLongLong(unwrap(o).numel()); }
PyObject* method_offset(PyObject* o, PyObject*) {
  return PyLong_FromLongLong(unwrap(o).storage_offset());
}
PyObject* method_element_size(PyObject* o, PyObject*) {
  return PyLong_FromLongLong(unwrap(o).itemsize());
}
PyObject* method_data_ptr(PyObject* o, PyObject*) {
  return guarded([&] {
    check_one_value(unwrap(o), "data_ptr()");
    check_not_sparse(unwrap(o), "data_ptr()");
    before_read(unwrap(o), "data_ptr()");
    const bool none = unwrap(o).numel() == 0 || unwrap(o)->device.type == DeviceType::Meta;
    return PyLong_FromUnsignedLongLong(none ? 0 : reinterpret_cast<uintptr_t>(unwrap(o).bytes()));
  });
}
PyObject* method_is_contiguous(PyObject* o, PyObject* const* args, Py_ssize_t n,
                               PyObject* kwnames) {
  const Py_ssize_t given = n + (kwnames != nullptr ? PyTuple_GET_SIZE(kwnames) : 0);
  if (given == 0) return truth(unwrap(o).is_contiguous());
  return guarded([&] {
    COGRAD_CHECK_TYPE(
        given == 1 && (n == 1 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0),
                                                                  "memory_format") == 0),
        "is_contiguous() takes one argument, memory_format");
    Py_ssize_t length = 0;
    const char* text = PyUnicode_Check(args[0]) ? PyUnicode_AsUTF8AndSize(args[0], &length) : "";
    COGRAD_CHECK_TYPE(PyUnicode_Check(args[0]),
                      "is_contiguous(): argument 'memory_format' must be torch.memory_format, not ",
                      Py_TYPE(args[0])->tp_name);
    if (text == nullptr) throw_python_error();
    const std::string_view name(text, static_cast<size_t>(length));
    return truth(has_format(unwrap(o), memory_format("is_contiguous", name)));
  });
}
PyObject* method_is_floating_point(PyObject* o, PyObject*) {
  return truth(unwrap(o).is_floating());
}
PyObject* method_is_signed(PyObject* o, PyObject*) { return truth(is_signed(unwrap(o).dtype())); }
// Checks flags, too: a view of an inference tensor has no base, but is a view.
PyObject* method_is_view(PyObject* o, PyObject*) {
  const uint32_t both = kInference | kViewInference;
  return truth(unwrap(o)->is_view() || (unwrap(o)->flags & both) == both);
}
PyObject* method_is_set_to(PyObject* o, PyObject* other) {
  return guarded([&] {
    COGRAD_CHECK_TYPE(is_tensor(other), "is_set_to(): expected a Tensor, got ",
                      Py_TYPE(other)->tp_name);
    return truth(is_set_to(unwrap(o), unwrap(other)));
  });
}
PyObject* method_get_device(PyObject* o, PyObject*) {
  const Device d = unwrap(o)->device;
  return PyLong_FromLong(d.type == DeviceType::CUDA ? d.index : -1);
}
// Calls to(), which checks the arguments.
PyObject* method_cuda(PyObject* o, PyObject* args, PyObject* given) {
  return guarded([&] {
    COGRAD_CHECK_TYPE(PyTuple_GET_SIZE(args) <= 2, "cuda() takes at most 2 positional arguments, ",
                      PyTuple_GET_SIZE(args), " were given");
    py::dict kwargs = given == nullptr ? py::dict() : py::dict(py::handle(given).attr("copy")());
    const char* const names[] = {"device", "non_blocking"};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
      COGRAD_CHECK_TYPE(!kwargs.contains(names[i]), "cuda() got multiple values for argument '",
                        names[i], "'");
      kwargs[names[i]] = py::handle(PyTuple_GET_ITEM(args, i));
    }
    if (!kwargs.contains("device") || kwargs["device"].is_none()) kwargs["device"] = "cuda";
    if (PyLong_Check(kwargs["device"].ptr()))
      kwargs["device"] = "cuda:" + std::string(py::str(kwargs["device"]));
    const py::object device =
        py::handle(reinterpret_cast<PyObject*>(device_type_object()))(kwargs["device"]);
    COGRAD_CHECK(std::string(py::str(device.attr("type"))) == "cuda",
                 "Invalid device, must be cuda device: cuda() got ", std::string(py::str(device)));
    kwargs["device"] = device;
    return py::handle(o).attr("to")(**kwargs).release().ptr();
  });
}
PyObject* method_item(PyObject* o, PyObject*) {
  return guarded([&] { return scalar_object(item(unwrap(o))); });
}
PyObject* method_detach(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* other = nullptr;
    if (overrides_possible && overridden_method("detach", &o, 1, &other)) [[unlikely]]
      return other;
    return wrap(detach(unwrap(o)));
  });
}
PyObject* method_detach_(PyObject* o, PyObject*) {
  return guarded([&] {
    detach_(unwrap(o));
    Py_INCREF(o);
    return o;
  });
}
PyObject* method_requires_grad_(PyObject* o, PyObject* const* args, Py_ssize_t n,
                                PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t given = n + (kwnames != nullptr ? PyTuple_GET_SIZE(kwnames) : 0);
    COGRAD_CHECK_TYPE(given == 0 || (given == 1 && PyBool_Check(args[0])),
                      "requires_grad_(): expected one bool");
    set_requires_grad(unwrap(o), given == 0 || args[0] == Py_True);
    ensure_tracked(o);
    Py_INCREF(o);
    return o;
  });
}
PyObject* method_retain_grad(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    retain_grad(unwrap(o));
    Py_RETURN_NONE;
  });
}
PyObject* method_make_subclass(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    COGRAD_CHECK_TYPE((n == 2 || n == 3) && PyType_Check(args[0]) && is_tensor(args[1]),
                      "_make_subclass(cls, data, require_grad=False)");
    COGRAD_CHECK_TYPE(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(args[0]), tensor_type),
                      "_make_subclass(): cls must be a subclass of Tensor");
    Tensor t = detach(unwrap(args[1]));
    if (n == 3 && PyObject_IsTrue(args[2]) == 1) set_requires_grad(t, true);
    PyObject* out = wrap_as(reinterpret_cast<PyTypeObject*>(args[0]), std::move(t));
    ensure_tracked(out);
    return out;
  });
}

#define FASTCALL(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f))

}  // namespace

PyGetSetDef tensor_getset[] = {
    {"__dict__", tensor_get_dict, tensor_set_dict, "Attributes set by the user.", nullptr},
    {"shape", get_shape, nullptr, "Sizes of the dimensions.", nullptr},
    {"dtype", get_dtype, nullptr, "Element type.", nullptr},
    {"device", get_device, nullptr, "Where the memory is.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of dimensions.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad_attr, "True if gradients are recorded.",
     nullptr},
    {"_is_concerned", get_is_concerned, nullptr,
     "Bits: 1: autograd records it, 2: it may have a tangent, 4: it is batched.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "True if no recorded op made this tensor.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The node that made this tensor, or None.", nullptr},
    {"output_nr", get_output_nr, nullptr, "Index of this tensor among the outputs of grad_fn.",
     nullptr},
    {"grad", get_grad, set_grad, "The accumulated gradient, or None.", nullptr},
    {"_grad", get_grad, set_grad, nullptr, nullptr},
    {"data", get_data, set_data, "The same memory without history or version checks.", nullptr},
    {"_version", get_version, nullptr, "Number of in-place writes seen.", nullptr},
    {"_base", get_base, nullptr, "The tensor this is a view of, or None.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "True if .grad is kept for this non-leaf.",
     nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"T", get_by_op<kT>, nullptr, "View with the dimensions reversed.", nullptr},
    {"H", get_by_op<kH>, nullptr, "The conjugate transpose of a matrix; a view if it is real.",
     nullptr},
    {"mT", get_by_op<kMT>, nullptr, "View with the last two dimensions swapped.", nullptr},
    {"mH", get_by_op<kMH>, nullptr, "The conjugate transpose of each matrix; a view if it is real.",
     nullptr},
    {"layout", get_layout, nullptr, "Always strided.", nullptr},
    {"is_sparse", get_false, nullptr, nullptr, nullptr},
    {"is_quantized", get_false, nullptr, nullptr, nullptr},
    {"is_cuda", get_is_on<DeviceType::CUDA>, nullptr, nullptr, nullptr},
    {"is_cpu", get_is_on<DeviceType::CPU>, nullptr, nullptr, nullptr},
    {"is_meta", get_is_on<DeviceType::Meta>, nullptr, nullptr, nullptr},
    {"name", get_names_none, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef tensor_methods[] = {
    {"size", FASTCALL(method_size), METH_FASTCALL | METH_KEYWORDS,
     "size($self, dim=None)\n--\n\nReturns the shape, or one size."},
    {"stride", FASTCALL(method_stride), METH_FASTCALL | METH_KEYWORDS,
     "stride($self, dim=None)\n--\n\nReturns the strides in elements, or one of them."},
    {"dim", method_dim, METH_NOARGS, "dim($self, /)\n--\n\nNumber of dimensions."},
    {"ndimension", method_dim, METH_NOARGS, "ndimension($self, /)\n--\n\nNumber of dimensions."},
    {"numel", method_numel, METH_NOARGS, "numel($self, /)\n--\n\nNumber of elements."},
    {"nelement", method_numel, METH_NOARGS, "nelement($self, /)\n--\n\nNumber of elements."},
    {"storage_offset", method_offset, METH_NOARGS,
     "storage_offset($self, /)\n--\n\nNumber of storage elements before the first."},
    {"element_size", method_element_size, METH_NOARGS,
     "element_size($self, /)\n--\n\nBytes of one element."},
    {"data_ptr", method_data_ptr, METH_NOARGS,
     "data_ptr($self, /)\n--\n\nAddress of the first element."},
    {"is_contiguous", FASTCALL(method_is_contiguous), METH_FASTCALL | METH_KEYWORDS,
     "is_contiguous($self, memory_format=None)\n--\n\nTrue if the memory is dense and in C order."},
    {"is_floating_point", method_is_floating_point, METH_NOARGS,
     "is_floating_point($self, /)\n--\n\nTrue if the dtype is a float."},
    {"is_signed", method_is_signed, METH_NOARGS,
     "is_signed($self, /)\n--\n\nTrue if the dtype has negative values."},
    {"is_inference", get_is_inference, METH_NOARGS,
     "is_inference($self, /)\n--\n\nTrue if made under inference_mode."},
    {"_is_view", method_is_view, METH_NOARGS, "True if this is a differentiable view."},
    {"is_set_to", method_is_set_to, METH_O,
     "is_set_to($self, tensor, /)\n--\n\nTrue if both have the same memory and geometry."},
    {"get_device", method_get_device, METH_NOARGS,
     "get_device($self, /)\n--\n\nReturns the index of the GPU: -1 for the CPU."},
    {"cuda", FASTCALL(method_cuda), METH_VARARGS | METH_KEYWORDS,
     "cuda($self, device=None, non_blocking=False, memory_format=None)\n--\n\nReturns a copy on a "
     "GPU; the tensor itself if it is there."},
    {"item", method_item, METH_NOARGS,
     "item($self, /)\n--\n\nReturns the only element as a Python number."},
    {"detach", method_detach, METH_NOARGS,
     "detach($self, /)\n--\n\nReturns a tensor without history that shares the memory."},
    {"detach_", method_detach_, METH_NOARGS,
     "detach_($self, /)\n--\n\nDrops the history, which makes this tensor a leaf."},
    {"requires_grad_", FASTCALL(method_requires_grad_), METH_FASTCALL | METH_KEYWORDS,
     "requires_grad_($self, requires_grad=True)\n--\n\nSets requires_grad and returns the tensor."},
    {"retain_grad", method_retain_grad, METH_NOARGS,
     "retain_grad($self, /)\n--\n\nKeeps .grad for this non-leaf tensor."},
    {"as_subclass", tensor_as_subclass, METH_O,
     "as_subclass($self, cls, /)\n--\n\nReturns a view of the tensor as an object of a subclass; "
     "it "
     "stays in the graph."},
    {"_convert_result", tensor_convert_result, METH_O,
     "_convert_result($self, cls, /)\n--\n\nas_subclass() of a result that nobody else has."},
    {"_make_subclass", FASTCALL(method_make_subclass), METH_FASTCALL | METH_STATIC,
     "Makes a tensor of a subclass over the data of another."},
    {"backward", FASTCALL(tensor_backward), METH_FASTCALL | METH_KEYWORDS,
     "backward($self, gradient=None, retain_graph=None, create_graph=False, "
     "inputs=None)\n--\n\nAccumulates gradients of this tensor into the leaves' .grad."},
    {"register_hook", tensor_register_hook, METH_O,
     "register_hook($self, hook, /)\n--\n\nCalls hook(grad) when the gradient is known; a returned "
     "tensor replaces it."},
    {"register_post_accumulate_grad_hook", tensor_register_accumulate_hook, METH_O,
     "register_post_accumulate_grad_hook($self, hook, /)\n--\n\nCalls hook(tensor) after .grad of "
     "this leaf was written."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace cograd::python
