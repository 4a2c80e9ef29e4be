// SPDX-License-Identifier: BSD-3-Clause
// The extension module cograd._C.
#include <cstdlib>
#include <cstring>

#include "python/ops/autocast.h"
#include "python/ops/backends.h"
#include "python/ops/optim.h"
#include "python/ops/overrides.h"
#include "python/tensor/sparse.h"
#include "python/tensor/tensor.h"
#include "tensor/warn.h"

namespace cograd::python {
namespace {

void warn_user(const std::string& text) {
  const Gil gil;
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw_python_error();
}

// Removes the types from `name(a: T, b: U = 1) -> V`.
std::string untyped(const std::string& line) {
  std::string text;
  bool type = false;
  int depth = 0;
  for (const char c : line.substr(0, line.rfind(" -> "))) {
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (depth <= 1 && (c == ',' || c == '=' || c == ')')) type = false;
    if (depth == 1 && c == ':') type = true;
    if (!type) text += c;
  }
  return text;
}

// pybind11's docs begin with `name(parameters) -> type`. Puts the same signature in front of them
// in the form from which CPython builds __text_signature__. pybind11 owns and frees the text.
void show_signature(PyObject* o) {
  if (PyInstanceMethod_Check(o)) o = PyInstanceMethod_GET_FUNCTION(o);
  if (!PyCFunction_Check(o)) return;
  PyObject* record = PyCFunction_GET_SELF(o);
  if (record == nullptr || std::strncmp(Py_TYPE(record)->tp_name, "pybind11_", 9) != 0) return;
  PyMethodDef* def = reinterpret_cast<PyCFunctionObject*>(o)->m_ml;
  const std::string doc = def->ml_doc == nullptr ? "" : def->ml_doc;
  const std::string line = untyped(doc.substr(0, doc.find('\n')));
  if (doc.find("\n--\n\n") != std::string::npos) return;  // registered under two names
  if (!line.starts_with(std::string(def->ml_name) + "(") || !line.ends_with(")")) return;
  char* text = strdup((line + "\n--\n\n" + doc).c_str());
  if (text == nullptr) return;
  std::free(const_cast<char*>(def->ml_doc));
  def->ml_doc = text;
}

void show_signatures(const py::handle& owner) {
  for (const auto& item : owner.attr("__dict__").attr("values")())
    if (PyType_Check(item.ptr()) != 0 && py::hasattr(item, "_pybind11_conduit_v1_"))
      show_signatures(item);
    else
      show_signature(item.ptr());
}

}  // namespace
}  // namespace cograd::python

// Runs in the main interpreter only: in a subinterpreter, pybind11's start-up waits forever because
// PyGILState_Ensure() does not know its threads.
PYBIND11_MODULE(_C_of_main, m) {
  using namespace cograd::python;
  cograd::set_warn_handler(warn_user);
  m.doc() = "The compiled core of cograd.";
  init_types(m);
  init_tensor(m);
  init_random(m);
  init_overrides(m);
  init_ops(m);
  init_indexing(m);
  init_nodes(m);
  init_grad_modes(m);
  init_function(m);
  init_gc(m);
  init_saved(m);
  init_watch(m);
  init_graph_data(m);
  init_autocast(m);
  init_transforms(m);
  init_interop(m);
  init_extension(m);
  init_sparse(m);
  init_optim(m);
  init_backends(m);
  init_cuda(m);
  show_signatures(m);
}

extern "C" PYBIND11_EXPORT PyObject* PyInit__C();
extern "C" PyObject* PyInit__C() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return PyInit__C_of_main();
  PyErr_SetString(PyExc_ImportError, "cograd._C can be imported in the main interpreter only");
  return nullptr;
}
