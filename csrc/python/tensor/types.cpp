// SPDX-License-Identifier: BSD-3-Clause
// dtype, device and Size objects, and conversions of Python numbers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>

#include "ops/compute/scalars.h"
#include "python/ops/overrides.h"
#include "python/runtime/class.h"
#include "python/tensor/tensor.h"
#include "tensor/backend.h"
#include "tensor/fake_device.h"
#include "tensor/sparse.h"

namespace cograd::python {

namespace {

struct PyDType {
  PyObject_HEAD DType value;
};
PyTypeObject* dtype_type = nullptr;
PyObject* dtype_objects[kNumDTypes];
PyTypeObject* size_type = nullptr;
// The package's name in printed text; install_as_torch() sets it to torch.
std::string public_name = "cograd";

DType value_of(PyObject* o) { return reinterpret_cast<PyDType*>(o)->value; }

PyObject* dtype_repr(PyObject* o) {
  return PyUnicode_FromFormat("%s.%s", public_name.c_str(), dtype_name(value_of(o)));
}
PyObject* dtype_reduce(PyObject* o, PyObject*) {
  return PyUnicode_FromString(dtype_name(value_of(o)));  // a global of the package: pickled by name
}
PyObject* get_is_floating(PyObject* o, void*) { return PyBool_FromLong(is_floating(value_of(o))); }
PyObject* get_is_complex(PyObject* o, void*) { return PyBool_FromLong(is_complex(value_of(o))); }
PyObject* dtype_to_real(PyObject* o, PyObject*) {
  return Py_NewRef(dtype_object(real_dtype(value_of(o))));
}
PyObject* dtype_to_complex(PyObject* o, PyObject*) {
  const DType t = value_of(o);
  if (is_differentiable(t)) return Py_NewRef(dtype_object(complex_dtype(t)));
  PyErr_Format(PyExc_RuntimeError, "cograd.%s has no complex dtype", dtype_name(t));
  return nullptr;
}
PyObject* get_is_signed(PyObject* o, void*) { return PyBool_FromLong(is_signed(value_of(o))); }
PyObject* get_itemsize(PyObject* o, void*) { return PyLong_FromLong(dtype_size(value_of(o))); }

void init_dtype(py::module_& m) {
  static PyMethodDef methods[] = {
      {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
      {"to_real", dtype_to_real, METH_NOARGS, "Returns the dtype of the real and imaginary parts."},
      {"to_complex", dtype_to_complex, METH_NOARGS,
       "Returns the complex dtype with parts of this dtype."},
      {}};
  static PyGetSetDef getset[] = {
      {"is_floating_point", get_is_floating, nullptr, "True if the dtype is a float.", nullptr},
      {"is_complex", get_is_complex, nullptr, "True if elements are complex numbers.", nullptr},
      {"is_signed", get_is_signed, nullptr, "True if negative values exist.", nullptr},
      {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
      {}};
  static PyType_Slot slots[] = {{Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
                                {Py_tp_methods, methods},
                                {Py_tp_getset, getset},
                                {Py_tp_doc, const_cast<char*>("The element type of a tensor.")},
                                {0, nullptr}};
  static PyType_Spec spec = {"cograd.dtype", sizeof(PyDType), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  dtype_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (dtype_type == nullptr) throw_python_error();
  m.attr("dtype") = py::handle(reinterpret_cast<PyObject*>(dtype_type));
  for (int i = 0; i < kNumDTypes; ++i) {
    auto* o = PyObject_New(PyDType, dtype_type);
    o->value = static_cast<DType>(i);
    dtype_objects[i] = reinterpret_cast<PyObject*>(o);
    m.attr(dtype_name(o->value)) = py::handle(dtype_objects[i]);
  }
}

PyObject* size_numel(PyObject* self, PyObject*) {
  int64_t n = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    const long long s = PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
    if (PyErr_Occurred()) return nullptr;
    if (__builtin_mul_overflow(n, int64_t{s}, &n)) {
      PyErr_SetString(PyExc_RuntimeError, "numel: integer multiplication overflow");
      return nullptr;
    }
  }
  return PyLong_FromLongLong(n);
}
PyObject* size_repr(PyObject* self) {
  PyObject* list = PySequence_List(self);
  if (list == nullptr) return nullptr;
  PyObject* text = PyUnicode_FromFormat("%s.Size(%R)", public_name.c_str(), list);
  Py_DECREF(list);
  return text;
}
// Turns the result of a tuple operation back into a Size; steals the reference.
PyObject* as_size(PyObject* stolen) {
  if (stolen == nullptr || !PyTuple_CheckExact(stolen)) return stolen;
  PyObject* args = PyTuple_Pack(1, stolen);
  Py_DECREF(stolen);
  if (args == nullptr) return nullptr;
  PyObject* out = PyObject_Call(reinterpret_cast<PyObject*>(size_type), args, nullptr);
  Py_DECREF(args);
  return out;
}
PyObject* size_concat(PyObject* a, PyObject* b) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* size_subscript(PyObject* self, PyObject* key) {
  PyObject* out = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
  return PySlice_Check(key) ? as_size(out) : out;
}
PyObject* size_reduce(PyObject* self, PyObject*) {
  PyObject* list = PySequence_List(self);
  return list == nullptr ? nullptr : Py_BuildValue("(O(N))", size_type, list);
}

void init_size(py::module_& m) {
  static PyMethodDef methods[] = {
      {"numel", size_numel, METH_NOARGS, "Number of elements of a tensor of this size."},
      {"__reduce__", size_reduce, METH_NOARGS, nullptr},
      {}};
  static PyType_Slot slots[] = {
      {Py_tp_methods, methods},
      {Py_tp_repr, reinterpret_cast<void*>(size_repr)},
      {Py_sq_concat, reinterpret_cast<void*>(size_concat)},
      {Py_mp_subscript, reinterpret_cast<void*>(size_subscript)},
      {Py_tp_doc, const_cast<char*>("The shape of a tensor: a tuple of ints.")},
      {0, nullptr}};
  static PyType_Spec spec = {"cograd.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  PyObject* bases = PyTuple_Pack(1, &PyTuple_Type);
  size_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, bases));
  Py_XDECREF(bases);
  if (size_type == nullptr) throw_python_error();
  m.attr("Size") = py::handle(reinterpret_cast<PyObject*>(size_type));
}

constexpr const char* kDeviceKinds[] = {
    "cpu",  "cuda", "ipu", "xpu",  "mkldnn", "opengl", "opencl", "ideep", "hip", "ve",
    "fpga", "maia", "xla", "lazy", "mps",    "meta",   "hpu",    "mtia",  "fake"};
constexpr uint8_t kCpu = 0, kCuda = 1, kMeta = 15, kFake = 18;  // the kinds that tensors can be on
static_assert(std::string_view(kDeviceKinds[kMeta]) == "meta");
static_assert(std::string_view(kDeviceKinds[kFake]) == "fake");

struct DeviceBox {
  Device d;
  uint8_t kind;  // an index of kDeviceKinds

  const char* name() const noexcept { return kDeviceKinds[kind]; }
  // Zeroes the memory: an object that was made by __new__ without __init__ is then the CPU.
  static void* operator new(size_t n) {
    void* p = ::operator new(n);
    std::memset(p, 0, n);
    return p;
  }
  static void* operator new(size_t, void* at) noexcept { return at; }
  static void operator delete(void* p) noexcept { ::operator delete(p); }
};

DeviceBox device_from_text(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const auto* found =
      std::find(std::begin(kDeviceKinds), std::end(kDeviceKinds), std::string_view(kind));
  std::string known;
  for (const char* k : std::span(kDeviceKinds).first(kFake))
    known += (known.empty() ? "" : ", ") + std::string(k);
  COGRAD_CHECK(found != std::end(kDeviceKinds), "Expected one of ", known,
               " device type at start of device string: ", text);
  DeviceBox box{{DeviceType::CPU, -1}, static_cast<uint8_t>(found - std::begin(kDeviceKinds))};
  if (colon == std::string::npos) return box;
  const std::string index = text.substr(colon + 1);
  const bool number = !index.empty() && index.size() < 3 &&
                      index.find_first_not_of("0123456789") == std::string::npos &&
                      (index == "0" || index[0] != '0');
  COGRAD_CHECK(number && (box.kind != kCpu || index == "0"), "Invalid device string: '", text, "'");
  box.d.index = static_cast<int8_t>(std::stoi(index));
  return box;
}

std::string device_text(const DeviceBox& b) {
  return b.name() + (b.d.index < 0 ? "" : ":" + std::to_string(b.d.index));
}

// Returns the GPU that a device names; starts the driver.
Device usable_gpu(const DeviceBox& b) {
  std::string why;
  CudaRuntime* const r = load_cuda(&why);
  COGRAD_CHECK(r != nullptr, "device '", device_text(b), "' is not available: ", why,
               ", so there is no cuda device to use; pass device='cpu'");
  const int index = b.d.index < 0 ? r->current() : b.d.index;
  COGRAD_CHECK(index < r->count(), "CUDA error: invalid device ordinal: ", device_text(b),
               " was asked for, but there ", r->count() == 1 ? "is " : "are ", r->count(),
               r->count() == 1 ? " GPU" : " GPUs");
  open_device_stage();
  return {DeviceType::CUDA, static_cast<int8_t>(index)};
}

// Returns the device if tensors can be on it; raises otherwise.
Device usable(const DeviceBox& b) {
  if (b.kind == kMeta) {
    open_device_stage();
    return {DeviceType::Meta, -1};
  }
  if (b.kind == kFake && fake_device_enabled()) {
    open_device_stage();
    return {DeviceType::Fake, -1};
  }
  if (b.kind == kCuda) return usable_gpu(b);
  COGRAD_CHECK(b.kind == kCpu, "device '", device_text(b),
               "' is not available: cograd runs on CPUs and NVIDIA GPUs, so there is no ", b.name(),
               " device to use; pass device='cpu'");
  return kHost;  // "cpu:0" is "cpu"
}

PyTypeObject* device_type = nullptr;

void init_device(py::module_& m) {
  py::class_<DeviceBox> cls(m, "device",
                            "Where a tensor lives: device('cpu'), or device('meta') without data.");
  checked_new(cls);
  device_type = reinterpret_cast<PyTypeObject*>(cls.ptr());
  cls  //
      .def(py::init(
               [](const py::str& s) { return device_from_text(utf8_text(s.ptr(), "device()")); }),
           py::arg("type"))
      .def(py::init([](const py::str& s, int index) {
             return device_from_text(utf8_text(s.ptr(), "device()") + ":" + std::to_string(index));
           }),
           py::arg("type"), py::arg("index"))
      .def(py::init([](const DeviceBox& d) { return d; }))
      .def(py::init([](py::int_ index) -> DeviceBox {
             COGRAD_CHECK_TYPE(!PyBool_Check(index.ptr()),
                               "device(): expected a str, a device or an index, got a bool");
             COGRAD_CHECK(!(index < py::int_(0)), "device(): index must not be negative, got ",
                          std::string(py::str(index)));
             COGRAD_CHECK(count_gpus() > 0, "device(): got the index ", std::string(py::str(index)),
                          " of an accelerator, but there is no GPU; use device('cpu')");
             return device_from_text("cuda:" + std::string(py::str(index)));
           }),
           py::arg("index"))
      .def_property_readonly("type", &DeviceBox::name)
      .def_property_readonly("index",
                             [](const DeviceBox& b) {
                               return b.d.index < 0 ? py::object(py::none())
                                                    : py::object(py::int_(b.d.index));
                             })
      .def("__repr__",
           [](const DeviceBox& b) {
             const std::string index = b.d.index < 0 ? "" : ", index=" + std::to_string(b.d.index);
             return "device(type='" + std::string(b.name()) + "'" + index + ")";
           })
      .def("__str__", &device_text)
      .def("__eq__",
           [](const DeviceBox& a, py::handle other) {
             if (!py::isinstance<DeviceBox>(other)) return false;
             const auto& b = py::cast<const DeviceBox&>(other);
             return b.d.index == a.d.index && b.kind == a.kind;
           })
      .def("__hash__", [](const DeviceBox& b) { return std::hash<std::string>{}(device_text(b)); })
      .def("__reduce__", [](py::object self) {
        return py::make_tuple(py::type::of(self), py::make_tuple(py::str(self)));
      });
  m.def(
      "_set_default_device",
      [](const py::object& device) {
        Device d;
        COGRAD_CHECK_TYPE(parse_device(device.ptr(), &d), "expected a device, got ",
                          Py_TYPE(device.ptr())->tp_name);
        return py::reinterpret_steal<py::object>(
            device_object(std::exchange(thread_place.by_default, d)));
      },
      py::arg("device"),
      "Sets where this thread's factories create tensors by default; returns the former device.");
  m.def(
      "_default_device",
      [] { return py::reinterpret_steal<py::object>(device_object(thread_place.by_default)); },
      "Returns where this thread's factories create tensors by default.");
  m.def(
      "_check_device",
      [](const py::object& device) {
        Device d;
        COGRAD_CHECK_TYPE(parse_device(device.ptr(), &d), "expected a device, got ",
                          Py_TYPE(device.ptr())->tp_name);
      },
      py::arg("device"), "Raises if the argument is no device, or one that tensors cannot be on.");
}

template <class T>
py::dict float_info() {
  using namespace py::literals;
  using L = std::numeric_limits<T>;
  return py::dict("eps"_a = L::epsilon(), "max"_a = L::max(), "min"_a = L::lowest(),
                  "tiny"_a = L::min(), "smallest_normal"_a = L::min(),
                  "resolution"_a = std::pow(10.0, -L::digits10), "bits"_a = 8 * sizeof(T));
}

// Returns the finfo or iinfo fields of a dtype; the Python classes use them.
py::dict dtype_limits(py::handle o) {
  using namespace py::literals;
  DType t;
  if (!parse_dtype(o.ptr(), &t))
    detail::fail(ErrorKind::Type, "finfo()/iinfo(): expected a dtype, got ",
                 Py_TYPE(o.ptr())->tp_name);
  switch (real_dtype(t)) {  // a complex dtype has the limits of its parts
    case DType::Float64:
      return float_info<double>();
    case DType::Float32:
      return float_info<float>();
    case DType::Float16:
      return py::dict("eps"_a = 0.0009765625, "max"_a = 65504.0, "min"_a = -65504.0,
                      "tiny"_a = 6.103515625e-05, "smallest_normal"_a = 6.103515625e-05,
                      "resolution"_a = 0.001, "bits"_a = 16);
    case DType::BFloat16:
      return py::dict("eps"_a = 0.0078125, "max"_a = 3.3895313892515355e+38,
                      "min"_a = -3.3895313892515355e+38, "tiny"_a = 1.1754943508222875e-38,
                      "smallest_normal"_a = 1.1754943508222875e-38, "resolution"_a = 0.01,
                      "bits"_a = 16);
    default:
      break;
  }
  COGRAD_CHECK_TYPE(t != DType::Bool, "torch.bool is not supported by iinfo/finfo");
  const int bits = 8 * dtype_size(t);
  const uint64_t max = ~uint64_t{0} >> (64 - bits + (is_signed(t) ? 1 : 0));
  const int64_t min = is_signed(t) ? -static_cast<int64_t>(max) - 1 : 0;
  return py::dict("bits"_a = bits, "max"_a = max, "min"_a = min);
}

}  // namespace

PyObject* dtype_object(DType t) noexcept { return dtype_objects[static_cast<int>(t)]; }
bool is_dtype(PyObject* o) noexcept { return Py_TYPE(o) == dtype_type; }

bool parse_dtype(PyObject* o, DType* out) noexcept {
  if (is_dtype(o)) {
    *out = value_of(o);
    return true;
  }
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type))
    *out = DType::Float64;
  else if (o == reinterpret_cast<PyObject*>(&PyComplex_Type))
    *out = DType::Complex128;
  else if (o == reinterpret_cast<PyObject*>(&PyLong_Type))
    *out = DType::Int64;
  else if (o == reinterpret_cast<PyObject*>(&PyBool_Type))
    *out = DType::Bool;
  else
    return false;
  return true;
}

std::string utf8_text(PyObject* text, const char* who) {
  Py_ssize_t length = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &length);
  if (bytes == nullptr && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) != 0) {
    PyErr_Clear();
    detail::fail(ErrorKind::Runtime, who,
                 ": error unpacking string as utf-8: it contains an unpaired surrogate");
  }
  if (bytes == nullptr) throw_python_error();
  return {bytes, static_cast<size_t>(length)};
}

PyTypeObject* device_type_object() noexcept { return device_type; }
bool is_device(PyObject* o) noexcept { return PyObject_TypeCheck(o, device_type) != 0; }
bool parse_device(PyObject* o, Device* out) {
  if (PyUnicode_Check(o)) {
    *out = usable(device_from_text(utf8_text(o, "device")));
    return true;
  }
  if (PyLong_Check(o) && !PyBool_Check(o) && count_gpus() > 0) {
    const std::string index = py::str(py::handle(o));
    *out = usable(device_from_text("cuda:" + index));
    return true;
  }
  if (!is_device(o)) return false;
  *out = usable(py::cast<const DeviceBox&>(py::handle(o)));
  return true;
}
PyObject* device_object(Device d) {
  constexpr uint8_t kKinds[kDeviceTypes] = {kCpu, kMeta, kFake, kCuda};
  const auto made = [&] {
    const uint8_t kind = kKinds[static_cast<int>(d.type)];
    return py::cast(DeviceBox{{DeviceType::CPU, d.index}, kind}).release().ptr();
  };
  if (d != kHost) return made();
  static PyObject* const host = made();  // immutable; making one takes longer than a small op
  Py_INCREF(host);
  return host;
}

PyObject* size_object(IntList given) {
  const Dims sizes(given);  // making the object may run code that sets the tensor's data
  PyObject* out = size_type->tp_alloc(size_type, static_cast<Py_ssize_t>(sizes.size()));
  if (out == nullptr) throw_python_error();
#if PY_VERSION_HEX >= 0x030E0000
  reinterpret_cast<PyTupleObject*>(out)->ob_hash = -1;  // not yet computed; 0 would be a hash
#endif
  for (size_t i = 0; i < sizes.size(); ++i) {
    PyObject* size = PyLong_FromLongLong(sizes[i]);
    if (size == nullptr) {
      Py_DECREF(out);
      throw_python_error();
    }
    PyTuple_SET_ITEM(out, static_cast<Py_ssize_t>(i), size);
  }
  return out;
}

bool parse_int(PyObject* o, int64_t* out) noexcept {
  if (PyLong_CheckExact(o)) {
    *out = PyLong_AsLongLong(o);
    if (*out == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    return true;
  }
  if (PyFloat_Check(o) || PyBool_Check(o) || !PyIndex_Check(o)) return false;
  // Older NumPy still offers __index__ on its booleans, with a warning.
  if (std::string_view(Py_TYPE(o)->tp_name).starts_with("numpy.bool")) return false;
  if (is_tensor(o)) {
    const Tensor& t = unwrap(o);
    if (is_differentiable(t.dtype()) || t.numel() != 1) return false;
  }
  PyObject* n = PyNumber_Index(o);
  if (n == nullptr) {
    PyErr_Clear();
    return false;
  }
  *out = PyLong_AsLongLong(n);
  Py_DECREF(n);
  if (*out == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  return true;
}

bool parse_large(PyObject* o, Scalar* out) noexcept {
  const unsigned long v = PyLong_AsUnsignedLong(o);
  if (v == ~0UL && PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  *out = Scalar(v);
  return true;
}

namespace {
bool parse_long(PyObject* o, Scalar* out) noexcept {
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow == 0) {
    *out = Scalar(v);
    return true;
  }
  if (overflow > 0 && parse_large(o, out)) return true;
  double wide = PyLong_AsDouble(o);
  if (wide == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  if (wide == -0x1p63) wide = std::nextafter(wide, -HUGE_VAL);  // it is below every int64
  *out = Scalar(wide);
  return true;
}
}  // namespace

bool parse_scalar(PyObject* o, Scalar* out) noexcept {
  if (PyLong_CheckExact(o)) return parse_long(o, out);
  if (PyFloat_Check(o)) {
    *out = Scalar(PyFloat_AS_DOUBLE(o));
    return true;
  }
  if (PyBool_Check(o)) {
    *out = Scalar(o == Py_True);
    return true;
  }
  if (PyLong_Check(o)) return parse_long(o, out);
  if (PyComplex_Check(o)) {
    const Py_complex v = PyComplex_AsCComplex(o);
    *out = Complex<double>(v.real, v.imag);
    return true;
  }
  if (is_tensor(o) || PyUnicode_Check(o) || PySequence_Check(o)) return false;
  if (is_torch_tensor(Py_TYPE(o))) return false;  // its history would be lost silently
  // Read a NumPy scalar: integers have __index__, booleans only __bool__ and floats __float__.
  int64_t i;
  if (parse_int(o, &i)) {
    *out = Scalar(static_cast<long long>(i));
    return true;
  }
  if (std::string_view(Py_TYPE(o)->tp_name).starts_with("numpy.bool")) {
    *out = Scalar(PyObject_IsTrue(o) == 1);
    return true;
  }
  if (std::string_view(Py_TYPE(o)->tp_name).starts_with("numpy.complex")) {
    const Py_complex v = PyComplex_AsCComplex(o);
    *out = Complex<double>(v.real, v.imag);
    return true;
  }
  if (Py_TYPE(o)->tp_as_number == nullptr || Py_TYPE(o)->tp_as_number->nb_float == nullptr)
    return false;
  PyObject* f = PyNumber_Float(o);
  if (f == nullptr) {
    PyErr_Clear();
    return false;
  }
  *out = Scalar(PyFloat_AS_DOUBLE(f));
  Py_DECREF(f);
  return true;
}

bool is_true(const Tensor& t) {
  const HiddenReads deciding;
  return item(t).to_bool();
}

Scalar item(const Tensor& t) {
  check_one_value(t, ".item() or bool()");
  check_not_sparse(t, ".item() or bool()");
  before_read(t, "item()");
  if (t->device.type == DeviceType::Meta) fail_unreadable(t->device, "Tensor.item()");
  COGRAD_CHECK(t.numel() == 1, "a Tensor with ", t.numel(),
               " elements cannot be converted to Scalar");
  const RunningOp running(t->device == kHost ? nullptr : "item");
  return element_at(t, 0);
}

PyObject* scalar_object(const Scalar& s) {
  if (s.is_large()) return PyLong_FromUnsignedLong(static_cast<unsigned long>(s.to_int()));
  switch (s.kind()) {
    case Scalar::Kind::Bool:
      return PyBool_FromLong(s.to_bool());
    case Scalar::Kind::Int:
      return PyLong_FromLongLong(s.to_int());
    case Scalar::Kind::Complex:
      return PyComplex_FromDoubles(s.to_double(), s.imag());
    case Scalar::Kind::Float:
      break;
  }
  return PyFloat_FromDouble(s.to_double());
}

void init_types(py::module_& m) {
  m.def("_set_public_name", [](const std::string& name) { public_name = name; });
  m.def("_public_name", [] { return public_name; });
  init_dtype(m);
  init_size(m);
  init_device(m);
  m.def("_dtype_info", &dtype_limits);
  m.def("_scalar_type_name", [](py::handle o) {
    DType t;
    if (!parse_dtype(o.ptr(), &t))
      detail::fail(ErrorKind::Type, "_scalar_type_name(): expected a dtype, got ",
                   Py_TYPE(o.ptr())->tp_name);
    return scalar_type_name(t);
  });
  m.def(
      "get_default_dtype",
      [] { return py::reinterpret_borrow<py::object>(dtype_object(default_dtype())); },
      "The dtype of new floating-point tensors.");
  m.def("_set_default_dtype", [](py::handle o) {
    DType t;
    if (!parse_dtype(o.ptr(), &t))
      detail::fail(ErrorKind::Type, "set_default_dtype(): expected a dtype, got ",
                   Py_TYPE(o.ptr())->tp_name);
    set_default_dtype(t);
  });
}

}  // namespace cograd::python
