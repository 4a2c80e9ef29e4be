// SPDX-License-Identifier: BSD-3-Clause
// Exposes graph nodes, hooks and the executor to Python.
#pragma once
#include "autograd/run/engine.h"
#include "python/tensor/tensor.h"

namespace cograd::python {

extern PyTypeObject* node_type;           // base of every grad_fn object
extern PyTypeObject* function_base_type;  // base of custom Functions' ctx

// Returns the Python object of a node (new reference); None for null.
PyObject* node_object(Node* n);
// Returns the node of a grad_fn object; throws TypeError for other objects.
Node* node_of(PyObject* o);
// Returns the node of any object, or null if it has none.
Node* node_or_null(PyObject* o) noexcept;
// Convert between a Python Function's node and its ctx object (python/autograd/function.cpp).
PyObject* function_object(Node* n);
Node* function_node(PyObject* o);

// A Python reference owned by a C++ object; it is released with the GIL held, from any thread.
class PyRef {
 public:
  PyRef() noexcept = default;
  static PyRef borrow(PyObject* o) noexcept {
    Py_XINCREF(o);
    return PyRef(o);
  }
  explicit PyRef(PyObject* steal) noexcept : p_(steal) {}
  PyRef(PyRef&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  PyRef& operator=(PyRef&& o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~PyRef() {
    if (p_ == nullptr || !Py_IsInitialized()) return;  // interpreter gone: leak rather than crash
    const PyGILState_STATE gil = ensure_gil();
    Py_DECREF(p_);
    PyGILState_Release(gil);
  }
  PyObject* get() const noexcept { return p_; }
  PyObject* take() noexcept { return std::exchange(p_, nullptr); }

 private:
  PyObject* p_ = nullptr;
};

PyObject* tensor_backward(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames);
PyObject* tensor_register_hook(PyObject* self, PyObject* hook);
PyObject* tensor_register_accumulate_hook(PyObject* self, PyObject* hook);

}  // namespace cograd::python
