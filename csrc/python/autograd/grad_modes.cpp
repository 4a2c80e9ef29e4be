// SPDX-License-Identifier: BSD-3-Clause
// __enter__ and __exit__ of the grad modes. Python serves signals only between Python instructions,
// so in C no interrupt can come between the change of the mode and the `with` statement that undoes
// it.
#include "autograd/modes/inference.h"
#include "python/autograd/nodes.h"
#include "python/runtime/class.h"

namespace cograd::python {

namespace {

PyObject* previous_name() {
  static PyObject* name = PyUnicode_InternFromString("prev");
  return name;
}

// Stores in the manager's `prev` the mode that __exit__ restores.
bool keep(PyObject* manager, PyObject* previous) noexcept {
  const PyRef held(previous);
  return previous != nullptr && PyObject_SetAttr(manager, previous_name(), previous) == 0;
}

// Returns the manager's `mode`, or -1 with an exception set.
int mode_of(PyObject* manager) {
  static PyObject* mode_name = PyUnicode_InternFromString("mode");
  const PyRef mode(PyObject_GetAttr(manager, mode_name));
  return mode.get() == nullptr ? -1 : PyObject_IsTrue(mode.get());
}

template <bool On>
PyObject* enter_grad(PyObject*, PyObject* manager) {
  if (!keep(manager, PyBool_FromLong(thread_state.grad_enabled))) return nullptr;
  set_grad_mode(On);
  Py_RETURN_NONE;
}

PyObject* enter_set_grad(PyObject*, PyObject* manager) {
  const int on = mode_of(manager);
  if (on < 0) return nullptr;
  set_grad_mode(on == 1);
  Py_RETURN_NONE;
}

// __enter__ of a manager whose constructor has already set its mode.
PyObject* enter_set(PyObject*, PyObject*) { Py_RETURN_NONE; }

PyObject* enter_inference(PyObject*, PyObject* manager) {
  const int on = mode_of(manager);
  if (on < 0) return nullptr;
  PyObject* before = Py_BuildValue("(OO)", thread_state.inference ? Py_True : Py_False,
                                   thread_state.grad_enabled ? Py_True : Py_False);
  if (!keep(manager, before)) return nullptr;
  restore_modes(on == 1, on == 0);
  Py_RETURN_NONE;
}

// The exception passed to __exit__ is ignored; it may also be passed by name.
PyRef previous_of(PyObject* const* args, Py_ssize_t n) {
  if (n >= 1) return PyRef(PyObject_GetAttr(args[0], previous_name()));
  PyErr_SetString(PyExc_TypeError, "__exit__() needs a context manager");
  return PyRef(nullptr);
}

PyObject* exit_grad(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject*) {
  const PyRef previous = previous_of(args, n);
  if (previous.get() == nullptr) return nullptr;
  restore_modes(thread_state.inference, previous.get() == Py_True);
  Py_RETURN_NONE;
}

PyObject* exit_multithreading(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject*) {
  const PyRef previous = previous_of(args, n);
  if (previous.get() == nullptr) return nullptr;
  set_multithreading(previous.get() == Py_True);
  Py_RETURN_NONE;
}

PyObject* exit_inference(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject*) {
  const PyRef previous = previous_of(args, n);
  int inference = 0, grad = 0;
  if (previous.get() == nullptr || !PyArg_ParseTuple(previous.get(), "pp", &inference, &grad))
    return nullptr;
  restore_modes(inference == 1, grad == 1);
  Py_RETURN_NONE;
}

template <class F>
PyCFunction as_c_function(F f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef methods[] = {
    {"_enter_no_grad", enter_grad<false>, METH_O, "Stops recording; saves the mode in prev."},
    {"_enter_enable_grad", enter_grad<true>, METH_O, "Starts recording; saves the mode in prev."},
    {"_enter_set_grad", enter_set_grad, METH_O, "Sets the mode."},
    {"_enter_set", enter_set, METH_O, "Does nothing: the constructor has set the mode."},
    {"_exit_grad", as_c_function(exit_grad), METH_FASTCALL | METH_KEYWORDS,
     "Restores the mode in prev."},
    {"_exit_multithreading", as_c_function(exit_multithreading), METH_FASTCALL | METH_KEYWORDS,
     "Restores the mode in prev."},
    {"_enter_inference", enter_inference, METH_O, "Sets the mode; saves the modes in prev."},
    {"_exit_inference", as_c_function(exit_inference), METH_FASTCALL | METH_KEYWORDS,
     "Restores the modes in prev."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_grad_modes(py::module_& m) {
  for (PyMethodDef* method = methods; method->ml_name != nullptr; ++method) {
    const PyRef function(PyCFunction_New(method, nullptr));
    m.attr(method->ml_name) = as_method(function.get());
  }
}

}  // namespace cograd::python
