// SPDX-License-Identifier: BSD-3-Clause
// Exports and imports DLPack capsules of versions 0.x and 1.x.
#include <pybind11/stl.h>

#include "autograd/modes/thread_state.h"
#include "ops/declare/device_stage.h"
#include "python/exchange/interop.h"
#include "tensor/backend.h"
#include "tensor/sparse.h"

namespace cograd::python {

namespace {

// These structs follow the DLPack specification.
enum DlDeviceType : int32_t { kDlCpu = 1, kDlCuda = 2, kDlPinned = 3 };
enum DlTypeCode : uint8_t {
  kDlInt = 0,
  kDlUInt = 1,
  kDlFloat = 2,
  kDlBfloat = 4,
  kDlComplex = 5,
  kDlBool = 6
};
enum DlFlags : uint64_t { kDlReadOnly = 1, kDlCopied = 2 };
struct DlDevice {
  int32_t type;
  int32_t id;
};
struct DlType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null means C order
  uint64_t byte_offset;
};
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};
struct DlVersion {
  uint32_t major;
  uint32_t minor;
};
struct DlManagedVersioned {
  DlVersion version;
  void* context;
  void (*deleter)(DlManagedVersioned*);
  uint64_t flags;
  DlTensor tensor;
};

template <class Managed>
constexpr const char* capsule_name() {
  return std::is_same_v<Managed, DlManaged> ? "dltensor" : "dltensor_versioned";
}
template <class Managed>
constexpr const char* used_name() {
  return std::is_same_v<Managed, DlManaged> ? "used_dltensor" : "used_dltensor_versioned";
}

DlType to_dl(DType t) noexcept {
  const auto bits = static_cast<uint8_t>(8 * dtype_size(t));
  const uint8_t code = t == DType::Bool       ? kDlBool
                       : t == DType::BFloat16 ? kDlBfloat
                       : is_floating(t)       ? kDlFloat
                       : is_complex(t)        ? kDlComplex
                       : is_signed(t)         ? kDlInt
                                              : kDlUInt;
  return {code, bits, 1};
}

DType from_dl(const DlType& d) {
  COGRAD_CHECK(d.lanes == 1, "from_dlpack(): vector types with ", d.lanes,
               " lanes are not supported");
  for (int i = 0; i < kNumDTypes; ++i) {
    const DlType own = to_dl(static_cast<DType>(i));
    if (own.code == d.code && own.bits == d.bits) return static_cast<DType>(i);
  }
  detail::fail(
      ErrorKind::Runtime, "from_dlpack(): unsupported dtype with type code ",
      static_cast<int>(d.code), " and ", static_cast<int>(d.bits),
      " bits; supported are bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, "
      "float64, complex64 and complex128");
}

DlDevice dl_device_of(const Tensor& t) noexcept {
  if (t->device.type == DeviceType::CUDA) return {kDlCuda, t->device.index};
  return {kDlCpu, 0};
}

// ---- export ----------------------------------------------------------------------------------

// The object a consumer holds. It keeps the storage, not the tensor, because a tensor's geometry
// may change.
template <class Managed>
struct Export {
  Managed managed;
  Storage* storage;
  Dims sizes;
  Dims strides;

  static void drop(Managed* m) {
    auto* e = static_cast<Export*>(m->context);
    e->storage->release();
    delete e;
  }
};

// Runs when a capsule is destroyed. A capsule that nobody consumed still owns the tensor.
template <class Managed>
void close_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, capsule_name<Managed>()) == 0) return;
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, capsule_name<Managed>()));
  if (m->deleter != nullptr) m->deleter(m);
}

template <class Managed>
PyObject* export_capsule(const Tensor& t, [[maybe_unused]] uint64_t flags) {
  auto* e = new Export<Managed>{};
  e->storage = t->storage;
  e->storage->retain();
  e->sizes = Dims(t.sizes());
  e->strides = Dims(t.strides());
  DlTensor& d = e->managed.tensor;
  d.data = t.bytes();
  d.device = dl_device_of(t);
  d.ndim = t.dim();
  d.dtype = to_dl(t.dtype());
  d.shape = e->sizes.data();
  d.strides = e->strides.data();
  d.byte_offset = 0;
  e->managed.context = e;
  e->managed.deleter = Export<Managed>::drop;
  if constexpr (std::is_same_v<Managed, DlManagedVersioned>) {
    e->managed.version = {1, 0};
    e->managed.flags = flags;
  }
  PyObject* capsule = PyCapsule_New(&e->managed, capsule_name<Managed>(), close_capsule<Managed>);
  if (capsule == nullptr) {
    Export<Managed>::drop(&e->managed);
    throw_python_error();
  }
  return capsule;
}

[[noreturn]] void fail_buffer(const std::string& text) {
  PyErr_SetString(PyExc_BufferError, text.c_str());
  throw_python_error();
}

// The consumer's stream waits for what the tensor's GPU does now, unless it is -1.
void order_streams(const Tensor& t, const py::object& stream) {
  const int64_t number = stream.is_none() ? 1 : py::cast<int64_t>(stream);
  if (t->device.type == DeviceType::CUDA && number != -1) wait_for_stream(t->device, number, true);
}

void check_export_stream(const Tensor& t, const py::object& stream) {
  if (stream.is_none()) return;
  const bool number = py::isinstance<py::int_>(stream) && !py::isinstance<py::bool_>(stream);
  if (t->device.type == DeviceType::CUDA) {
    COGRAD_CHECK_TYPE(number, "__dlpack__(): stream must be int or None, got ",
                      Py_TYPE(stream.ptr())->tp_name);
    const auto n = py::cast<int64_t>(stream);
    COGRAD_CHECK_VALUE(n != 0 && n >= -1,
                       "__dlpack__(): stream must be 1 for the default stream, "
                       "2 for the thread's, -1 for no wait, or a handle, got ",
                       n);
    return;
  }
  if (number && py::cast<int64_t>(stream) == -1) return;
  PyErr_SetString(PyExc_AssertionError, "__dlpack__(): stream should be None on cpu.");
  throw_python_error();
}

void check_export_request(const Tensor& t, const py::object& stream) {
  if (t->device.type == DeviceType::CUDA) {
    check_one_value(t, "__dlpack__()");
    check_not_sparse(t, "__dlpack__()");
  } else {
    check_readable(t, "__dlpack__()");
  }
  if (has_tangent_here(t))
    fail_buffer(
        "Can't export a tensor that has a tangent, use tensor.detach(): results computed outside "
        "of cograd would lose the tangent.");
  if (requires_grad(t))
    fail_buffer("Can't export tensors that require gradient, use tensor.detach()");
  check_export_stream(t, stream);
}

// Returns whether the consumer wants the tensor on the CPU, where it is not.
bool goes_to_host(const Tensor& t, const py::object& device, std::optional<bool> copy) {
  if (device.is_none()) return false;
  const auto pair = py::cast<std::pair<int, int>>(device);
  const DlDevice own = dl_device_of(t);
  if (pair.first == own.type && pair.second == own.id) return false;
  const bool host = pair.first == kDlCpu && pair.second == 0;
  if (!host)
    fail_buffer(detail::concat("__dlpack__(): dl_device must be the CPU, (1, 0)",
                               own.type == kDlCuda ? ", or the tensor's own device" : "", ", got (",
                               pair.first, ", ", pair.second, ")"));
  if (!copy.value_or(true))
    fail_buffer("__dlpack__(): a tensor on a GPU needs a copy for the CPU, but copy=False");
  return true;
}

py::object tensor_dlpack(py::object self, const py::object& stream, const py::object& max_version,
                         const py::object& dl_device, std::optional<bool> copy) {
  COGRAD_CHECK_TYPE(is_tensor(self.ptr()), "__dlpack__(): expected a Tensor, got ",
                    Py_TYPE(self.ptr())->tp_name);
  check_export_request(unwrap(self.ptr()), stream);
  const bool to_host = goes_to_host(unwrap(self.ptr()), dl_device, copy);
  const bool versioned =
      !max_version.is_none() && py::cast<std::pair<int64_t, int64_t>>(max_version).first >= 1;
  // Check again: reading the arguments may have run code that changed the tensor.
  check_export_request(unwrap(self.ptr()), stream);
  Tensor t = Tensor::steal(unwrap(self.ptr())->alias());
  uint64_t flags = 0;
  order_streams(t, stream);
  if (to_host) {
    t = to_device(t, kHost);
    flags |= kDlCopied;
  } else if (copy.value_or(false)) {
    t = fresh_copy(t);
    flags |= kDlCopied;
  }
  if (t->storage->read_only) flags |= kDlReadOnly;
  if (versioned)
    return py::reinterpret_steal<py::object>(export_capsule<DlManagedVersioned>(t, flags));
  if ((flags & kDlReadOnly) != 0)
    fail_buffer(
        "__dlpack__(): a read-only tensor needs a versioned capsule; pass max_version=(1, 0)");
  return py::reinterpret_steal<py::object>(export_capsule<DlManaged>(t, 0));
}

// ---- import ----------------------------------------------------------------------------------

template <class Managed>
void drop_managed(void* p) {
  auto* m = static_cast<Managed*>(p);
  if (m->deleter == nullptr || !Py_IsInitialized()) return;
  const PyGILState_STATE gil = ensure_gil();  // the deleter may decrement Python reference counts
  m->deleter(m);
  PyGILState_Release(gil);
}

struct Geometry {
  DType dtype;
  Dims sizes;
  Dims strides;
  char* data;
  Device device;
};

// Returns the device of a producer's memory.
Device device_of(const DlDevice& d) {
  if (d.type == kDlCpu || d.type == kDlPinned) return kHost;
  if (d.type != kDlCuda)
    fail_buffer(detail::concat("from_dlpack(): unsupported device type ", d.type,
                               "; cograd runs on the CPU (type 1) and on NVIDIA GPUs (2)"));
  std::string why;
  CudaRuntime* const r = load_cuda(&why);
  if (r == nullptr || d.id < 0 || d.id >= r->count())
    fail_buffer(detail::concat("from_dlpack(): the data is on GPU ", d.id,
                               ", and there is no such cuda device", why.empty() ? "" : ": ", why));
  open_device_stage();
  return {DeviceType::CUDA, static_cast<int8_t>(d.id)};
}

Geometry read_geometry(const DlTensor& d) {
  Geometry g{from_dl(d.dtype), {}, {}, static_cast<char*>(d.data), device_of(d.device)};
  COGRAD_CHECK(d.ndim >= 0 && d.ndim <= kMaxDims && (d.ndim == 0 || d.shape != nullptr),
               "from_dlpack(): malformed tensor with ", d.ndim, " dimensions");
  for (int i = 0; i < d.ndim; ++i) {
    COGRAD_CHECK(d.shape[i] >= 0, "from_dlpack(): negative size ", d.shape[i], " at dim ", i);
    g.sizes.push_back(d.shape[i]);
  }
  g.strides =
      d.strides == nullptr ? contiguous_strides(g.sizes) : Dims(d.strides, d.strides + d.ndim);
  const bool empty = product(g.sizes) == 0;
  for (size_t i = 0; i < g.strides.size() && !empty; ++i)
    COGRAD_CHECK_VALUE(g.strides[i] >= 0 || g.sizes[i] == 1, "from_dlpack(): negative stride ",
                       g.strides[i], " at dim ", i, " is not supported; copy the array first");
  for (size_t i = 0; i < g.strides.size(); ++i)
    if (g.strides[i] < 0) g.strides[i] = 1;
  COGRAD_CHECK(empty || d.data != nullptr,
               "from_dlpack(): the data pointer of a non-empty tensor is null");
  if (g.data != nullptr) g.data += d.byte_offset;
  COGRAD_CHECK(
      reinterpret_cast<uintptr_t>(g.data) % static_cast<uintptr_t>(dtype_size(g.dtype)) == 0,
      "from_dlpack(): the memory is not aligned for ", dtype_name(g.dtype));
  return g;
}

// Moves the tensor out of the capsule. On an error the capsule keeps it.
template <class Managed>
Tensor import_capsule(PyObject* capsule, bool* copied) {
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, capsule_name<Managed>()));
  if (m == nullptr) throw_python_error();
  bool read_only = false;
  if constexpr (std::is_same_v<Managed, DlManagedVersioned>) {
    if (m->version.major != 1)
      fail_buffer(detail::concat("from_dlpack(): unsupported DLPack version ", m->version.major,
                                 ".", m->version.minor, "; supported is 1.x"));
    read_only = (m->flags & kDlReadOnly) != 0;
    *copied = (m->flags & kDlCopied) != 0;
  }
  const Geometry g = read_geometry(m->tensor);
  if (PyCapsule_SetName(capsule, used_name<Managed>()) != 0) throw_python_error();
  Tensor out =
      tensor_over(g.data, g.dtype, g.sizes, g.strides, drop_managed<Managed>, m, read_only);
  out->device = g.device;
  if (g.device != kHost) out->storage->kind = 4;
  return out;
}

Tensor from_any_capsule(PyObject* capsule, bool* copied) {
  if (PyCapsule_IsValid(capsule, capsule_name<DlManagedVersioned>()) != 0)
    return import_capsule<DlManagedVersioned>(capsule, copied);
  if (PyCapsule_IsValid(capsule, capsule_name<DlManaged>()) != 0)
    return import_capsule<DlManaged>(capsule, copied);
  const char* name = PyCapsule_GetName(capsule);
  PyErr_Clear();
  detail::fail(ErrorKind::Runtime, "from_dlpack received an invalid capsule named '",
               name != nullptr ? name : "",
               "'. Note that DLTensor capsules can be consumed only "
               "once, so you might have already constructed a tensor from it once.");
}

// Returns the producer's device; the CPU if it does not say.
Device check_producer(const py::object& ext) {
  COGRAD_CHECK(py::hasattr(ext, "__dlpack__"),
               "from_dlpack(): expected an object with __dlpack__ "
               "or a DLPack capsule, got ",
               Py_TYPE(ext.ptr())->tp_name);
  if (!py::hasattr(ext, "__dlpack_device__")) return kHost;
  const auto device = py::cast<py::tuple>(ext.attr("__dlpack_device__")());
  return device_of({py::cast<int>(py::int_(py::object(device[0]))),
                    py::cast<int>(py::int_(py::object(device[1])))});
}

// Calls __dlpack__ with arguments, or without them for producers older than DLPack 1.0.
py::object ask_producer(const py::object& ext, Device device, std::optional<bool> copy) {
  py::dict arguments, old;
  if (device != kHost) {
    arguments["stream"] = stream_number(device);
    old["stream"] = arguments["stream"];
  }
  arguments["max_version"] = py::make_tuple(1, 0);
  if (copy && !*copy) arguments["copy"] = false;
  try {
    return ext.attr("__dlpack__")(**arguments);
  } catch (py::error_already_set& e) {
    if (!e.matches(PyExc_TypeError)) throw;
  }
  return ext.attr("__dlpack__")(**old);
}

Tensor from_dlpack(const py::object& ext, const py::object& device, std::optional<bool> copy) {
  Device d;
  COGRAD_CHECK_TYPE(device.is_none() || parse_device(device.ptr(), &d),
                    "from_dlpack(): argument 'device' must be cograd.device or str, not ",
                    Py_TYPE(device.ptr())->tp_name);
  py::object capsule = ext;
  if (!PyCapsule_CheckExact(ext.ptr())) {
    const Device where = check_producer(ext);
    capsule = ask_producer(ext, where, copy);
    COGRAD_CHECK_TYPE(PyCapsule_CheckExact(capsule.ptr()),
                      "from_dlpack(): __dlpack__ returned an object of type ",
                      Py_TYPE(capsule.ptr())->tp_name, ", expected a capsule");
  }
  bool copied = false;
  Tensor t = from_any_capsule(capsule.ptr(), &copied);
  if (copied && copy && !*copy)
    fail_buffer("from_dlpack(): the producer made a copy, but copy=False");
  if (!device.is_none() && d != t->device) {
    if (!copy.value_or(true))
      fail_buffer(detail::concat("from_dlpack(): the data is on ", to_string(t->device),
                                 ", so it must be copied to ", to_string(d), ", but copy=False"));
    return to_device(t, d);
  }
  return copy.value_or(false) && !copied ? fresh_copy(t) : t;
}

}  // namespace

void init_dlpack(py::module_& m) {
  const py::handle type(reinterpret_cast<PyObject*>(tensor_type));
  type.attr("__dlpack__") =
      py::cpp_function(&tensor_dlpack, py::name("__dlpack__"), py::is_method(type), py::kw_only(),
                       py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
                       py::arg("dl_device") = py::none(), py::arg("copy") = py::none(),
                       "Makes a DLPack capsule of the memory, versioned if max_version allows it.");
  type.attr("__dlpack_device__") = py::cpp_function(
      [](const py::object& self) {
        const DlDevice d = dl_device_of(unwrap(self.ptr()));
        return py::make_tuple(d.type, d.id);
      },
      py::name("__dlpack_device__"), py::is_method(type),
      "Returns (1, 0) for the CPU, (2, index) for a GPU.");
  m.def("from_dlpack", &from_dlpack, py::arg("ext_tensor"), py::kw_only(),
        py::arg("device") = py::none(), py::arg("copy") = py::none(),
        "Makes a tensor that shares memory with a DLPack capsule or an object with __dlpack__.");
}

}  // namespace cograd::python
