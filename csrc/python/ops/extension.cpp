// SPDX-License-Identifier: BSD-3-Clause
// Loads libraries of registered ops, finds their ops, and implements the functions behind
// cograd/python.h.
#include <dlfcn.h>
#include <pybind11/stl.h>

#include "api/devices.h"
#include "api/error.h"
#include "api/registration.h"
#include "python/ops/call.h"

namespace cograd::python {

namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& l : lines) text += (text.empty() ? "" : "; ") + l;
  return text;
}

// Loads the shared object, whose initialisers register ops. Raises ImportError if it cannot be
// loaded or one of its ops was rejected.
std::vector<std::string> load_library(const std::string& path, std::string owner) {
  api::begin_loading(std::move(owner));
  // The library's static initialisers register its ops.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* why = library == nullptr ? dlerror() : nullptr;
  api::Loaded loaded = api::end_loading();
  if (library == nullptr)
    throw py::import_error("cannot load " + path + ": " + (why == nullptr ? "unknown error" : why));
  if (!loaded.errors.empty()) throw py::import_error(path + ": " + joined(loaded.errors));
  return loaded.names;
}

py::object find_foreign_op(const std::string& qualified) {
  const ForeignOp* op = api::find_foreign(qualified);
  if (op == nullptr) throw py::attribute_error("there is no registered op '" + qualified + "'");
  return foreign_op_object(*op);
}

// Returns the traits of an op, which stubs, opcheck and the documentation use.
py::dict describe_op(const std::string& qualified) {
  const ForeignOp* op = api::find_foreign(qualified);
  if (op == nullptr) throw py::attribute_error("there is no registered op '" + qualified + "'");
  py::dict d;
  d["library"] = op->library;
  d["name"] = op->name;
  d["doc"] = op->doc;
  d["signature"] = op->params;
  d["owner"] = op->owner;
  d["differentiable"] = op->record.differentiable;
  d["jvp"] = op->jvp != nullptr || (op->flags & COGRAD_OP_HAS_JVP) != 0;
  d["vmap"] = op->batch != nullptr || (op->flags & COGRAD_OP_HAS_BATCH) != 0 ||
              (!op->composed && (op->flags & COGRAD_OP_TAKES_SAMPLES) != 0);
  d["args"] = describe_arguments(op->record.args);
  return d;
}

// --- the bridge ----------------------------------------------------------------------------------

Tensor borrowed(cograd_tensor t) { return Tensor::borrow(reinterpret_cast<TensorImpl*>(t)); }

void* wrap_tensor(cograd_tensor t) {
  return guarded([&] { return wrap(borrowed(t)); });
}
int32_t unwrap_tensor(void* object, cograd_tensor* t) {
  auto* o = static_cast<PyObject*>(object);
  if (!is_tensor(o)) return 0;
  *t = reinterpret_cast<cograd_tensor>(unwrap(o).impl());
  return 1;
}
void* wrap_dtype(int32_t dtype) {
  PyObject* o = dtype_object(static_cast<DType>(dtype));
  Py_XINCREF(o);
  return o;
}
int32_t unwrap_dtype(void* object, int32_t* dtype) {
  DType t;
  if (!parse_dtype(static_cast<PyObject*>(object), &t)) return 0;
  *dtype = static_cast<int32_t>(t);
  return 1;
}
void* wrap_device(int32_t type, int32_t index) {
  return guarded([&] {
    Device d{DeviceType::CPU, static_cast<int8_t>(index)};
    if (type != COGRAD_CPU) d = api::device_from_c(type, index, "device");
    return device_object(d);
  });
}
int32_t unwrap_device(void* object, int32_t* type, int32_t* index) {
  Device d{DeviceType::CPU, -1};
  bool ok = false;
  guarded_int([&] {
    ok = parse_device(static_cast<PyObject*>(object), &d);
    return 0;
  });
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  *type = api::device_type_to_c(d.type);
  *index = d.index;
  return ok;
}
int32_t unwrap_number(void* object, cograd_value* v) {
  Scalar s;
  if (!parse_scalar(static_cast<PyObject*>(object), &s)) return 0;
  Value number;
  number.set_scalar(s);
  *v = number.to_c();
  return 1;
}
void raise_last_error() {
  guarded([]() -> PyObject* {
    const cograd_status s = cograd_error_get(nullptr, nullptr, nullptr);
    api::raise(s, "");
  });
}

constexpr cograd_python_bridge kBridge{sizeof(cograd_python_bridge),
                                       wrap_tensor,
                                       unwrap_tensor,
                                       wrap_dtype,
                                       unwrap_dtype,
                                       wrap_device,
                                       unwrap_device,
                                       unwrap_number,
                                       raise_last_error};

}  // namespace

// Implements torch's overload names: op.default is the op itself, op.other the registered op
// "op__other".
PyObject* op_attribute(PyObject* op, PyObject* name, const ForeignOp* f) {
  PyObject* found = PyObject_GenericGetAttr(op, name);
  if (found != nullptr || f == nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0)
    return found;
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr || *text == '_') return nullptr;
  const bool same = std::string_view(text) == "default";
  const ForeignOp* other = same ? f : api::find_foreign(f->qualified + "__" + text);
  if (other == nullptr) return nullptr;
  PyErr_Clear();
  if (same) return Py_NewRef(op);
  return guarded([&] { return foreign_op_object(*other).release().ptr(); });
}

void init_extension(py::module_& m) {
  cograd_set_python(&kBridge);
  // A stored Python exception that C++ code swallowed must not outlive the interpreter.
  py::module_::import("atexit").attr("register")(py::cpp_function(&api::forget));
  m.def("_load_library", &load_library, py::arg("path"), py::arg("owner") = "");
  m.def("_find_op", &find_foreign_op);
  m.def("_describe_op", &describe_op);
  m.def("_foreign_ops", [] {
    std::vector<std::string> names;
    for (const ForeignOp* op : api::foreign_ops()) names.push_back(op->qualified);
    return names;
  });
  m.def("_abi_version", [] { return py::make_tuple(COGRAD_ABI_MAJOR, COGRAD_ABI_MINOR); });
}

}  // namespace cograd::python
