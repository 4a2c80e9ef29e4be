// SPDX-License-Identifier: BSD-3-Clause
// The Generator class and the default stream of random numbers.
#include "ops/random/generator.h"
#include "python/runtime/class.h"

namespace cograd::python {

namespace {

// Converts a seed, an int in [-2^63, 2^64), to 64 bits.
uint64_t parse_seed(py::handle o) {
  COGRAD_CHECK(!PyBool_Check(o.ptr()) && PyIndex_Check(o.ptr()) != 0,
               "manual_seed expected a long, but got ", Py_TYPE(o.ptr())->tp_name);
  const py::object n = py::reinterpret_steal<py::object>(PyNumber_Index(o.ptr()));
  if (!n) throw_python_error();
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(n.ptr(), &overflow);
  if (overflow == 0) return static_cast<uint64_t>(v);
  const unsigned long long u = PyLong_AsUnsignedLongLong(n.ptr());
  if (PyErr_Occurred()) {
    PyErr_Clear();
    detail::fail(ErrorKind::Value, "manual_seed(): Overflow when unpacking long long: the seed ",
                 py::cast<std::string>(py::str(n)), " does not fit in 64 bits");
  }
  return u;
}

Tensor state_tensor(const Generator& g) {
  const auto bytes = g.state();
  const auto n = static_cast<int64_t>(bytes.size());
  Tensor t = empty_checked("get_state", {&n, 1}, DType::UInt8);
  std::copy(bytes.begin(), bytes.end(), t.data<uint8_t>());
  return t;
}

void set_state(Generator& g, py::handle o) {
  COGRAD_CHECK_TYPE(is_tensor(o.ptr()), "RNG state must be a ByteTensor, got ",
                    Py_TYPE(o.ptr())->tp_name);
  const Tensor& t = unwrap(o.ptr());
  COGRAD_CHECK_TYPE(t.dtype() == DType::UInt8 && t.dim() == 1 && t.is_contiguous(),
                    "RNG state must be a contiguous 1-d tensor of uint8, got ",
                    dtype_name(t.dtype()), " of shape ", to_string(t.sizes()));
  check_readable(t, "setting a random state");
  g.set_state({t.data<uint8_t>(), static_cast<size_t>(t.numel())});
}

std::unique_ptr<Generator> make_generator(py::handle device) {
  Device d = kHost;
  COGRAD_CHECK_TYPE(device.is_none() || parse_device(device.ptr(), &d),
                    "Generator(): argument 'device' must be cograd.device or str, not ",
                    Py_TYPE(device.ptr())->tp_name);
  COGRAD_CHECK(d.type == DeviceType::CPU || d.type == DeviceType::CUDA, "Generator(): device '",
               to_string(d), "' has no random numbers; use device='cpu'");
  if (d.type == DeviceType::CUDA) return std::make_unique<Generator>(d);
  return std::make_unique<Generator>();
}

newfunc bare_new = nullptr;

// __new__ alone must not leave an object without a generator, so it calls __init__, too, which does
// nothing when it is called again.
PyObject* generator_new(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    const py::type base = py::type::of<Generator>();
    PyObject* cls = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : Py_None;
    COGRAD_CHECK_TYPE(PyType_Check(cls) && PyObject_IsSubclass(cls, base.ptr()) == 1,
                      "Generator.__new__(): the first argument must be a subtype of Generator");
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    const auto rest = py::reinterpret_steal<py::object>(PyTuple_GetSlice(args, 1, PY_SSIZE_T_MAX));
    if (!rest) throw_python_error();
    py::object made = py::reinterpret_steal<py::object>(bare_new(type, rest.ptr(), kwargs));
    if (!made) throw_python_error();
    const py::object init = base.attr("__init__");
    if (cls == base.ptr() && kwargs != nullptr)
      init(made, *rest, **py::reinterpret_borrow<py::kwargs>(kwargs));
    else if (cls == base.ptr())
      init(made, *rest);
    else
      init(made);
    return made.release().ptr();
  });
}

void complete_new(py::handle cls) {
  static PyMethodDef method = {
      "__new__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(generator_new)),
      METH_VARARGS | METH_KEYWORDS, "Makes a complete generator."};
  bare_new = reinterpret_cast<PyTypeObject*>(cls.ptr())->tp_new;
  cls.attr("__new__") = py::reinterpret_steal<py::object>(PyCFunction_New(&method, nullptr));
}

}  // namespace

void init_random(py::module_& m) {
  py::class_<Generator> generator(m, "Generator",
                                  "A stream of random numbers: a seed and a position.");
  checked_new(generator);
  complete_new(generator);
  generator.def(py::init(&make_generator), py::arg("device") = "cpu")
      .def_property_readonly("device",
                             [](const Generator& g) {
                               return py::reinterpret_steal<py::object>(device_object(g.device()));
                             })
      .def(
          "manual_seed",
          [](const py::object& self, py::handle seed) {
            py::cast<Generator&>(self).manual_seed(parse_seed(seed));
            return self;
          },
          py::arg("seed"), "Starts the stream of a seed; returns the generator.")
      .def("seed", &Generator::seed, "Seeds from the system's entropy and returns the seed.")
      .def("initial_seed", &Generator::initial_seed, "Returns the seed of the current stream.")
      .def("get_state", &state_tensor,
           "Returns seed and position as a uint8 tensor; torch's bytes for torch's stream.")
      .def("set_state", &set_state, py::arg("new_state"), "Restores a state from get_state.")
      .def(
          "clone_state",
          [](const Generator& g) {
            auto copy = g.device() == kHost ? std::make_unique<Generator>()
                                            : std::make_unique<Generator>(g.device());
            copy->set_state(g.state());
            return copy;
          },
          "Returns a new generator in the same state.")
      .def("__getstate__", &state_tensor);
  // Assigned, because def() treats a function of this name as a constructor.
  generator.attr("__setstate__") = generator.attr("set_state");
  m.def(
      "_set_torch_stream", [](bool on) { set_stream(on ? Stream::Torch : Stream::Philox); },
      py::arg("on"));
  m.def("_torch_stream", [] { return stream() == Stream::Torch; });
  m.attr("default_generator") = py::cast(&default_generator(), py::return_value_policy::reference);
}

}  // namespace cograd::python
