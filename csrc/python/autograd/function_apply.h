// SPDX-License-Identifier: BSD-3-Clause
// Runs custom Functions: apply, the wrapping of outputs, and the call of backward.
#pragma once
#include "python/autograd/function.h"

namespace cograd::python {

PyObject* new_function_object(PyTypeObject* type);
PyObject* function_apply(PyObject* cls, PyObject* const* args, Py_ssize_t n, PyObject* kwnames);
PyObject* function_call_instance(PyObject* self, PyObject* const* args, Py_ssize_t n,
                                 PyObject* kwnames);
// Registers the style and ctx type of a Function subclass; called once per subclass.
void register_function(py::type cls, const std::string& style, py::object ctx_type,
                       py::object helper, Py_ssize_t parameters);

// Visits the tensors, nodes and objects that a node owns, for the proxies of a collection
// (python/autograd/gc.cpp).
int visit_contents(Node* n, visitproc visit, void* arg);
}  // namespace cograd::python
