// SPDX-License-Identifier: BSD-3-Clause
// The extension module cograd._C.
#include "python/py_overrides.h"
#include "python/py_tensor.h"
#include "tensor/warn.h"

namespace cograd::python {
namespace {

void warn_user(const std::string& text) {
  py::gil_scoped_acquire gil;
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw_python_error();
}

}  // namespace
}  // namespace cograd::python

PYBIND11_MODULE(_C, m) {
  using namespace cograd::python;
  cograd::set_warn_handler(warn_user);
  m.doc() = "The compiled core of cograd.";
  // Docs of public functions begin with the signature in the form that inspect reads.
  pybind11::options plain_docs;
  plain_docs.disable_function_signatures();
  init_types(m);
  init_tensor(m);
  init_random(m);
  init_overrides(m);
  init_ops(m);
  init_indexing(m);
  init_nodes(m);
  init_function(m);
  init_gc(m);
  init_saved(m);
  init_watch(m);
  init_interop(m);
  init_extension(m);
}
