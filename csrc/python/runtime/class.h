// SPDX-License-Identifier: BSD-3-Clause
// Fixes for pybind11 classes: pybind11 writes to an object even if its allocation failed, and its
// functions do not become methods when assigned to a Python class.
#pragma once
#include "python/tensor/tensor.h"

namespace cograd::python {

// Makes allocation of `cls` raise when memory runs out. Only C++ may call tp_alloc then, so the
// class needs a __new__ that raises (forbid_new) or checked_new.
inline void alloc_or_throw(py::handle cls) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
  type->tp_alloc = [](PyTypeObject* t, Py_ssize_t items) -> PyObject* {
    PyObject* o = PyType_GenericAlloc(t, items);
    if (o == nullptr) throw_python_error();
    return o;
  };
  PyType_Modified(type);
}

// Does the same for a class that Python code instantiates, too.
inline void checked_new(py::handle cls) {
  reinterpret_cast<PyTypeObject*>(cls.ptr())->tp_new = [](PyTypeObject* t, PyObject*, PyObject*) {
    return guarded([&] {
      PyObject* o = PyType_GenericAlloc(t, 0);  // not tp_alloc: a Python subclass has its own
      if (o == nullptr) throw_python_error();
      reinterpret_cast<py::detail::instance*>(o)->allocate_layout();
      return o;
    });
  };
  alloc_or_throw(cls);
}

// Wraps a function so that it becomes a method of the Python class it is assigned to.
inline py::object as_method(py::handle function) {
  PyObject* method = function ? PyInstanceMethod_New(function.ptr()) : nullptr;
  if (method == nullptr) throw_python_error();
  return py::reinterpret_steal<py::object>(method);
}

// Make __enter__ and __exit__ in C++, as for the grad modes: `f` is called with the manager. The
// arguments of __exit__ are accepted in any form, also by name, and ignored.
template <class F>
py::object enter_method(F f) {
  return as_method(py::cpp_function(std::move(f), py::name("__enter__")));
}
template <class F>
py::object exit_method(F f) {
  return as_method(py::cpp_function(
      [f](const py::object& manager, const py::args&, const py::kwargs&) { f(manager); },
      py::name("__exit__")));
}

// Pops what __enter__ pushed on the manager's list `_before`.
inline py::object take_before(const py::object& manager) {
  const auto before = py::cast<py::list>(manager.attr("_before"));
  COGRAD_CHECK(!before.empty(), Py_TYPE(manager.ptr())->tp_name,
               ".__exit__(): called without an __enter__() before it");
  return before.attr("pop")();
}

}  // namespace cograd::python
