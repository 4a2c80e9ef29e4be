// SPDX-License-Identifier: BSD-3-Clause
// What pybind11's classes lack: it writes to an object that Python had no memory for, and its
// functions are no methods of a class written in Python.
#pragma once
#include "python/py_tensor.h"

namespace cograd::python {

// Objects that C++ makes: without memory there is an exception. Only C++ may call it, so that the
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

// For a class that Python makes objects of, too.
inline void checked_new(py::handle cls) {
  reinterpret_cast<PyTypeObject*>(cls.ptr())->tp_new = [](PyTypeObject* t, PyObject*, PyObject*) {
    return guarded([&] {
      PyObject* o = PyType_GenericAlloc(t, 0);  // not tp_alloc: of a subclass that is Python's
      if (o == nullptr) throw_python_error();
      reinterpret_cast<py::detail::instance*>(o)->allocate_layout();
      return o;
    });
  };
  alloc_or_throw(cls);
}

// The function as a method of the Python class that it is assigned to.
inline py::object as_method(py::handle function) {
  PyObject* method = function ? PyInstanceMethod_New(function.ptr()) : nullptr;
  if (method == nullptr) throw_python_error();
  return py::reinterpret_steal<py::object>(method);
}

// __enter__ and __exit__ in C++, as the grad modes': `f` takes the manager. The arguments of
// __exit__ may come in any form, also by name.
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

// What __enter__ put on the manager's list `_before`, taken from it.
inline py::object take_before(const py::object& manager) {
  const auto before = py::cast<py::list>(manager.attr("_before"));
  COGRAD_CHECK(!before.empty(), Py_TYPE(manager.ptr())->tp_name,
               ".__exit__(): called without an __enter__() before it");
  return before.attr("pop")();
}

}  // namespace cograd::python
