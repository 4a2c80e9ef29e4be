// SPDX-License-Identifier: BSD-3-Clause
// Reading an object may run code (__index__, __len__, a warning filter) that changes the list that
// contains it. All C++ code reads lists through HeldItems.
#pragma once
#include "python/tensor/tensor.h"

namespace cograd::python {

// Holds the items of a list or tuple. Copies a list unless all items are plain numbers, so that
// reading one item cannot change the others. The list or tuple must outlive this object.
class HeldItems {
 public:
  explicit HeldItems(PyObject* o) : o_(o) {
    if (PyTuple_Check(o) || all_plain(o)) return;
    copy_ = py::reinterpret_steal<py::object>(PyList_AsTuple(o));
    if (!copy_) throw_python_error();
    o_ = copy_.ptr();
  }
  // True if all items of a list or tuple are numbers that run no code when they are read.
  static bool all_plain(PyObject* o) noexcept {
    PyObject* const* items = PySequence_Fast_ITEMS(o);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      if (!PyLong_CheckExact(items[i]) && !PyFloat_CheckExact(items[i]) && !PyBool_Check(items[i]))
        return false;
    return true;
  }
  Py_ssize_t ssize() const noexcept { return PySequence_Fast_GET_SIZE(o_); }
  size_t size() const noexcept { return static_cast<size_t>(ssize()); }
  PyObject* const* data() const noexcept { return PySequence_Fast_ITEMS(o_); }
  PyObject* operator[](Py_ssize_t i) const noexcept { return data()[i]; }

 private:
  PyObject* o_;
  py::object copy_;
};

// Returns the items of any iterable as a tuple that other code cannot change.
inline py::object held_sequence(PyObject* o) {
  py::object items =
      py::reinterpret_steal<py::object>(PyTuple_CheckExact(o) ? Py_NewRef(o) : PySequence_Tuple(o));
  if (!items) throw_python_error();
  return items;
}

}  // namespace cograd::python
