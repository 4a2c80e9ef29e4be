// SPDX-License-Identifier: BSD-3-Clause
// Shares memory with NumPy and through the buffer protocol.
#include "python/exchange/interop.h"

#include <pybind11/numpy.h>

#include "ops/declare/device_stage.h"
#include "tensor/backend.h"
#include "tensor/sparse.h"

namespace cograd::python {

namespace {

// Returns a type of the numpy module, or null while nobody has imported numpy.
PyTypeObject* numpy_type(const char* name) noexcept {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* numpy = modules == nullptr ? nullptr : PyDict_GetItemString(modules, "numpy");
  PyObject* type = numpy == nullptr ? nullptr : PyObject_GetAttrString(numpy, name);
  if (type == nullptr || !PyType_Check(type)) {
    PyErr_Clear();
    Py_XDECREF(type);
    return nullptr;
  }
  return reinterpret_cast<PyTypeObject*>(type);  // never freed
}

std::string type_name(const py::dtype& d) {
  const py::object type = d.attr("type");
  return py::str(type.attr("__module__")).cast<std::string>() + "." +
         py::str(type.attr("__name__")).cast<std::string>();
}

bool find_dtype(const py::dtype& d, DType* out) {
  const auto size = d.itemsize();
  switch (d.kind()) {
    case 'b':
      *out = DType::Bool;
      return size == 1;
    case 'u':
      *out = size == 1   ? DType::UInt8
             : size == 2 ? DType::UInt16
             : size == 4 ? DType::UInt32
                         : DType::UInt64;
      return size <= 8;
    case 'i':
      *out = size == 1   ? DType::Int8
             : size == 2 ? DType::Int16
             : size == 4 ? DType::Int32
                         : DType::Int64;
      return size <= 8;
    case 'f':
      *out = size == 2 ? DType::Float16 : size == 4 ? DType::Float32 : DType::Float64;
      return size <= 8;
    case 'c':
      *out = size == 8 ? DType::Complex64 : DType::Complex128;
      return size <= 16;
    default:
      return false;
  }
}

py::array as_array(PyObject* o) { return py::reinterpret_borrow<py::array>(o); }

bool is_writable(const py::array& a) { return a.writeable(); }

bool is_aligned(const py::array& a) {
  return (a.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_) != 0;
}

Dims element_strides(const py::array& a) {
  Dims strides;
  for (py::ssize_t i = 0; i < a.ndim(); ++i) strides.push_back(a.strides(i) / a.itemsize());
  return strides;
}

void check_layout(const char* op, const py::array& a) {
  if (a.size() != 0) {
    for (py::ssize_t i = 0; i < a.ndim(); ++i) {
      COGRAD_CHECK_VALUE(
          a.strides(i) >= 0, op,
          "(): at least one stride in the given numpy array is negative, and tensors "
          "with negative strides are not supported; use array.copy()");
      COGRAD_CHECK_VALUE(a.strides(i) % a.itemsize() == 0, op,
                         "(): given numpy array strides not a multiple of the element byte size; "
                         "use array.copy()");
    }
  }
  COGRAD_CHECK_VALUE(is_aligned(a), op, "(): given numpy array is not aligned; use array.copy()");
}

void check_exportable(const char* op, const Tensor& t) {
  check_readable(t, op);
  // With recording off nothing is lost, as in the forward of a Function.
  COGRAD_CHECK(!requires_grad(t) || !thread_state.grad_enabled, "Can't call ", op,
               "() on Tensor that requires grad. Use tensor.detach().", op, "() instead.");
  COGRAD_CHECK(
      !has_tangent_here(t), "Can't call ", op,
      "() on a Tensor that has a tangent: results computed outside of cograd would lose it. Use "
      "tensor.detach().",
      op, "() instead, or give a Function a jvp.");
}

void drop_storage(void* p) noexcept { static_cast<Storage*>(p)->release(); }

// Returns an object that keeps the storage, not the tensor, alive: `t.data = ...` or a resize must
// not free the memory.
py::object storage_keeper(const Tensor& t) {
  t->storage->retain();
  return py::capsule(static_cast<void*>(t->storage), drop_storage);
}

const py::dtype& array_dtype(DType t) {
  static PyObject* cache[kNumDTypes];  // never freed
  PyObject*& slot = cache[static_cast<int>(t)];
  if (slot == nullptr) {
    py::dtype made{std::string(dtype_name(t))};
    if (slot == nullptr) slot = made.release().ptr();
  }
  return reinterpret_cast<const py::dtype&>(slot);
}

PyObject* method_numpy(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    COGRAD_CHECK_TYPE(n == 0, "numpy() takes 0 positional arguments but ", n, " were given");
    bool force = false;
    for (Py_ssize_t i = 0; kwnames != nullptr && i < PyTuple_GET_SIZE(kwnames); ++i) {
      COGRAD_CHECK_TYPE(
          PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), "force") == 0,
          "numpy() got an unexpected keyword argument; expected numpy(*, force=False)");
      const int truth = PyObject_IsTrue(args[i]);
      if (truth < 0) throw_python_error();
      force = truth == 1;
    }
    if (force && may_lack_kernels(unwrap(self)->device))
      return ndarray_of(to_device(detach(unwrap(self)), kHost));
    COGRAD_CHECK_TYPE(unwrap(self)->device.type == DeviceType::CPU, "can't convert ",
                      to_string(unwrap(self)->device),
                      " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                      "memory first.");
    check_readable(unwrap(self), "numpy()");
    if (!force) check_exportable("numpy", unwrap(self));
    return ndarray_of(unwrap(self));
  });
}

PyObject* py_from_numpy(PyObject*, PyObject* o) {
  return guarded([&] {
    COGRAD_CHECK_TYPE(is_ndarray(o), "from_numpy(): expected np.ndarray (got ", Py_TYPE(o)->tp_name,
                      ")");
    return wrap(tensor_from_ndarray("from_numpy", o));
  });
}

// ---- buffer protocol -------------------------------------------------------------------------

constexpr char* format_of(DType t) {
  static_assert(sizeof(long) == 8, "'l' is int64");
  return const_cast<char*>(dtype_info(t).format);
}

// Data of a buffer view besides the bytes; freed by release_buffer.
struct BufferInfo {
  Storage* storage;
  Py_ssize_t shape[2 * kMaxDims];  // sizes, then strides in bytes
};

bool is_f_contiguous(const Tensor& t) {
  int64_t expected = 1;
  for (int i = 0; i < t.dim(); ++i) {
    if (t.size(i) != 1 && t.stride(i) != expected) return false;
    expected = scaled_stride(expected, t.size(i));
  }
  return true;
}

const char* refuse_buffer(const Tensor& t, int flags) {
  if (requires_grad(t))
    return "Can't export a buffer of a Tensor that requires grad. Use tensor.detach() instead.";
  if (has_tangent_here(t))
    return "Can't export a buffer of a Tensor that has a tangent. Use tensor.detach() instead.";
  if (t.dtype() == DType::BFloat16) return "the buffer protocol has no format for bfloat16";
  if ((flags & PyBUF_WRITABLE) != 0 && t->storage->read_only)
    return "the tensor shares memory with a read-only buffer";
  const bool f_order = is_f_contiguous(t);
  const auto asks = [flags](int what) { return (flags & what) == what; };
  if (asks(PyBUF_C_CONTIGUOUS) && !t.is_contiguous()) return "the tensor is not C-contiguous";
  if (asks(PyBUF_F_CONTIGUOUS) && !f_order) return "the tensor is not Fortran-contiguous";
  if (asks(PyBUF_ANY_CONTIGUOUS) && !t.is_contiguous() && !f_order)
    return "the tensor is not contiguous";
  if (!asks(PyBUF_STRIDES) && !t.is_contiguous()) return "the tensor is not C-contiguous";
  return nullptr;
}

// Returns the stride in bytes, or 0 on overflow: only the unused stride of a dim of size 0 or 1 can
// be that large.
py::ssize_t byte_stride(const Tensor& t, int dim) {
  py::ssize_t bytes = 0;
  return __builtin_mul_overflow(t.stride(dim), t.itemsize(), &bytes) ? 0 : bytes;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  return guarded_int([&] {
    view->obj = nullptr;
    const Tensor& t = unwrap(self);
    check_readable(t, "a buffer");
    if (const char* why = refuse_buffer(t, flags)) {
      PyErr_SetString(PyExc_BufferError, why);
      return -1;
    }
    py::ssize_t bytes = 0;
    if (__builtin_mul_overflow(t.numel(), t.itemsize(), &bytes)) {
      PyErr_SetString(PyExc_BufferError, "the tensor has more bytes than a buffer can have");
      return -1;
    }
    auto* info = new BufferInfo;
    info->storage = t->storage;
    t->storage->retain();
    for (int i = 0; i < t.dim(); ++i) {
      info->shape[i] = t.size(i);
      info->shape[kMaxDims + i] = byte_stride(t, i);
    }
    view->buf = t.bytes();
    view->len = bytes;
    view->itemsize = t.itemsize();
    view->readonly = t->storage->read_only ? 1 : 0;
    view->ndim = t.dim();
    view->format = (flags & PyBUF_FORMAT) != 0 ? format_of(t.dtype()) : nullptr;
    view->shape = (flags & PyBUF_ND) == PyBUF_ND ? info->shape : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? info->shape + kMaxDims : nullptr;
    if (view->shape == nullptr) view->ndim = 1;
    view->suboffsets = nullptr;
    view->internal = info;
    Py_INCREF(self);
    view->obj = self;
    return 0;
  });
}

void release_buffer(PyObject*, Py_buffer* view) {
  auto* info = static_cast<BufferInfo*>(view->internal);
  info->storage->release();
  delete info;
}

struct FrombufferArgs {
  PyObject* buffer = nullptr;
  DType dtype;
  int64_t count = -1;
  int64_t offset = 0;
  bool requires_grad = false;
};

void release_py_buffer(void* p) {
  auto* view = static_cast<Py_buffer*>(p);
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE gil = ensure_gil();
  PyBuffer_Release(view);
  delete view;
  PyGILState_Release(gil);
}

// Opens the object's buffer, writable if the object allows that.
std::unique_ptr<Py_buffer> open_buffer(PyObject* o) {
  auto view = std::make_unique<Py_buffer>();
  COGRAD_CHECK_VALUE(PyObject_CheckBuffer(o),
                     "frombuffer(): object does not implement Python buffer protocol, got ",
                     Py_TYPE(o)->tp_name);
  if (PyObject_GetBuffer(o, view.get(), PyBUF_WRITABLE) == 0) return view;
  PyErr_Clear();
  if (PyObject_GetBuffer(o, view.get(), PyBUF_SIMPLE) != 0) throw_python_error();
  if (PyErr_WarnEx(PyExc_UserWarning,
                   "frombuffer(): the given buffer is not writable; the tensor shares its memory, "
                   "and writing to the tensor raises. Copy the buffer for a writable tensor.",
                   1) < 0) {
    PyBuffer_Release(view.get());
    throw_python_error();
  }
  return view;
}

int64_t checked_count(const FrombufferArgs& a, int64_t bytes) {
  const int64_t item = dtype_size(a.dtype);
  COGRAD_CHECK_VALUE(bytes > 0 && a.count != 0, "frombuffer(): both buffer length (", bytes,
                     ") and count (", a.count, ") must not be 0");
  COGRAD_CHECK_VALUE(a.count >= -1, "frombuffer(): count must be positive, or -1 for all, got ",
                     a.count);
  COGRAD_CHECK_VALUE(a.offset >= 0 && a.offset < bytes, "frombuffer(): offset (", a.offset,
                     " bytes) must be non-negative and no greater than buffer length (", bytes,
                     " bytes) minus 1");
  const int64_t left = bytes - a.offset;
  if (a.count > 0) {
    COGRAD_CHECK_VALUE(a.count <= left / item, "frombuffer(): requested buffer length (", a.count,
                       " * ", item, " bytes) after offset (", a.offset,
                       " bytes) must not be greater than actual buffer length (", bytes, " bytes)");
    return a.count;
  }
  COGRAD_CHECK_VALUE(left % item == 0, "frombuffer(): buffer length (", left,
                     " bytes) after offset (", a.offset,
                     " bytes) must be a multiple of element size (", item, ")");
  return left / item;
}

Tensor from_buffer(py::object buffer, py::handle dtype, int64_t count, int64_t offset,
                   bool requires_grad) {
  FrombufferArgs a{buffer.ptr(), DType::Bool, count, offset, requires_grad};
  COGRAD_CHECK_TYPE(parse_dtype(dtype.ptr(), &a.dtype),
                    "frombuffer(): argument 'dtype' must be cograd.dtype, not ",
                    Py_TYPE(dtype.ptr())->tp_name);
  std::unique_ptr<Py_buffer> view = open_buffer(buffer.ptr());
  struct Close {
    Py_buffer* view;
    ~Close() {
      if (view != nullptr) PyBuffer_Release(view);
    }
  } close{view.get()};
  const int64_t n = checked_count(a, view->len);
  char* data = static_cast<char*>(view->buf) + offset;
  COGRAD_CHECK_VALUE(
      reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(dtype_size(a.dtype)) == 0,
      "frombuffer(): the bytes at offset ", offset, " are not aligned for ", dtype_name(a.dtype),
      "; copy the buffer");
  const bool read_only = view->readonly != 0;
  const int64_t one = 1;
  Tensor t =
      tensor_over(data, a.dtype, {&n, 1}, {&one, 1}, release_py_buffer, view.get(), read_only);
  close.view = nullptr;
  view.release();
  if (a.requires_grad) set_requires_grad(t, true);
  return t;
}

}  // namespace

PyBufferProcs tensor_buffer{get_buffer, release_buffer};

bool is_ndarray(PyObject* o) noexcept {
  static PyTypeObject* type = nullptr;
  if (type == nullptr && (type = numpy_type("ndarray")) == nullptr) return false;
  return PyObject_TypeCheck(o, type) != 0;
}

bool is_numpy_scalar(PyObject* o) noexcept {
  static PyTypeObject* type = nullptr;
  if (type == nullptr && (type = numpy_type("generic")) == nullptr) return false;
  return PyObject_TypeCheck(o, type) != 0;
}

DType numpy_dtype(PyObject* o) {
  // Don't use an array's `dtype` attribute, which a subclass may override: the bytes are read by
  // it.
  const py::dtype d =
      is_ndarray(o) ? as_array(o).dtype() : py::handle(o).attr("dtype").cast<py::dtype>();
  DType t;
  COGRAD_CHECK_TYPE(find_dtype(d, &t), "can't convert np.ndarray of type ", type_name(d),
                    ". The only supported types are: float64, float32, float16, int64, int32, "
                    "int16, int8, uint64, uint32, uint16, uint8, bool, complex64 and complex128.");
  COGRAD_CHECK_VALUE(!is_ndarray(o) || py::cast<bool>(d.attr("isnative")),
                     "given numpy array has byte order different from the native byte order. "
                     "Conversion between byte orders is currently not supported.");
  return t;
}

Dims ndarray_sizes(PyObject* array) {
  const py::array a = as_array(array);
  return Dims(a.shape(), a.shape() + a.ndim());
}

Tensor tensor_over(char* data, DType t, IntList sizes, IntList strides, void (*deleter)(void*),
                   void* context, bool read_only) {
  Storage* s =
      Storage::wrap(data, span_of(sizes, strides, dtype_size(t)), nullptr, nullptr, read_only);
  Tensor out = tensor_of_storage(s, t, sizes, strides, data);
  s->deleter = deleter;  // set last: on an error the caller still owns the memory
  s->context = context;
  return out;
}

void drop_python_owner(void* context) {
  if (!Py_IsInitialized()) return;  // the interpreter is gone: leak rather than crash
  const PyGILState_STATE gil = ensure_gil();
  Py_DECREF(static_cast<PyObject*>(context));
  PyGILState_Release(gil);
}

static void warn_read_only(const char* op) {
  const std::string text = detail::concat(  // begins like torch's: programs filter it so
      "The given NumPy array is not writable. The tensor of ", op,
      "() shares its memory, and writing to the tensor raises. Copy the array for a writable "
      "tensor.");
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw_python_error();
}

Tensor tensor_from_ndarray(const char* op, PyObject* array) {
  const py::array a = as_array(array);
  if (!is_writable(a)) {
    numpy_dtype(array);  // raise without a warning if it cannot be shared
    check_layout(op, a);
    warn_read_only(op);
  }
  // No user code runs from here on. Check again, as a warning filter may have changed the array.
  const DType t = numpy_dtype(array);
  check_layout(op, a);
  const bool read_only = !is_writable(a);
  const Dims sizes = ndarray_sizes(array);
  Py_INCREF(array);
  return tensor_over(static_cast<char*>(const_cast<void*>(a.data())), t, sizes, element_strides(a),
                     drop_python_owner, array, read_only);
}

Tensor copy_of_ndarray(const char* op, PyObject* array) {
  numpy_dtype(array);
  py::array a = as_array(array);
  bool odd = !is_aligned(a);
  for (py::ssize_t i = 0; i < a.ndim(); ++i)
    odd = odd || a.strides(i) < 0 || a.strides(i) % a.itemsize() != 0;
  if (odd) {
    a = a.attr("copy")();  // in a subclass this is user code and may return anything
    check_layout(op, a);
  }
  const DType t = numpy_dtype(a.ptr());
  const Dims sizes = ndarray_sizes(a.ptr());
  COGRAD_CHECK_VALUE(sizes.size() <= kMaxDims, op, "(): too many dimensions in the array");
  Py_INCREF(a.ptr());
  return fresh_copy(tensor_over(static_cast<char*>(const_cast<void*>(a.data())), t, sizes,
                                element_strides(a), drop_python_owner, a.ptr(), true));
}

PyObject* ndarray_of(const Tensor& given) {
  const Tensor t = Tensor::steal(given->alias());  // nobody else can set its data
  COGRAD_CHECK_TYPE(t.dtype() != DType::BFloat16,
                    "numpy(): Got unsupported ScalarType BFloat16: NumPy has no bfloat16; use "
                    "tensor.float().numpy()");
  std::vector<py::ssize_t> strides;
  for (int i = 0; i < t.dim(); ++i) strides.push_back(byte_stride(t, i));
  const std::vector<py::ssize_t> sizes(t.sizes().begin(), t.sizes().end());
  py::array a(array_dtype(t.dtype()), sizes, strides, t.bytes(), storage_keeper(t));
  if (t->storage->read_only)
    py::detail::array_proxy(a.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return a.release().ptr();
}

void add_methods(PyMethodDef* methods) {
  auto* type = reinterpret_cast<PyObject*>(tensor_type);
  for (PyMethodDef* m = methods; m->ml_name != nullptr; ++m) {
    PyObject* d = (m->ml_flags & METH_CLASS) != 0 ? PyDescr_NewClassMethod(tensor_type, m)
                                                  : PyDescr_NewMethod(tensor_type, m);
    if (d == nullptr) throw_python_error();
    const py::object hold = py::reinterpret_steal<py::object>(d);
    if (PyObject_SetAttrString(type, m->ml_name, d) != 0) throw_python_error();
  }
}

void add_functions(py::module_& m, PyMethodDef* functions) {
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw_python_error();
}

void init_numpy(py::module_& m) {
  static PyMethodDef functions[] = {
      {"from_numpy", py_from_numpy, METH_O,
       "from_numpy(ndarray)\n--\n\nReturns a tensor that shares the array's memory."},
      {nullptr, nullptr, 0, nullptr}};
  static PyMethodDef methods[] = {
      {"numpy", COGRAD_FASTCALL(method_numpy), METH_FASTCALL | METH_KEYWORDS,
       "numpy($self, *, force=False)\n--\n\nReturns a NumPy array that shares the memory."},
      {nullptr, nullptr, 0, nullptr}};
  add_functions(m, functions);
  add_methods(methods);
  m.def("frombuffer", &from_buffer, py::arg("buffer"), py::kw_only(), py::arg("dtype"),
        py::arg("count") = -1, py::arg("offset") = 0, py::arg("requires_grad") = false,
        "Returns a 1-d tensor over the bytes of an object with the buffer protocol.");
}

void init_interop(py::module_& m) {
  init_construct(m);
  init_numpy(m);
  init_protocols(m);
  init_dlpack(m);
  init_cuda_memory(m);
  init_pickle(m);
}

}  // namespace cograd::python
