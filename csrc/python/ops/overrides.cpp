// SPDX-License-Identifier: BSD-3-Clause
// Finds the arguments that override an op and passes the call to cograd.overrides.
#include "python/ops/overrides.h"

#include <cstring>
#include "autograd/graph/shared_writes.h"
#include "ops/transform/forward_mode.h"
#include "python/runtime/class.h"
#include "python/runtime/held.h"
#include "transforms/levels.h"

namespace cograd::python {

bool overrides_possible = false;

namespace {

enum Off : int { kNone = 0, kSubclasses = 1, kEverything = 2 };
struct ThreadOverrides {
  int modes = 0;  // depth of the mode stack, which cograd.overrides keeps
  int off = kNone;
};
thread_local ThreadOverrides thread_overrides;

PyObject* disabled_impl = nullptr;  // a class whose __torch_function__ is this overrides nothing

// The last subclass of Tensor that was found to override nothing, usually Parameter. A type's tag
// changes with its attributes and is never given to another type; 0 is no tag.
struct {
  PyTypeObject* type = nullptr;
  unsigned int tag = 0;
  bool is(PyTypeObject* t) const noexcept {
    return t == type && tag != 0 && t->tp_version_tag == tag;
  }
} last_plain;

bool is_plain(PyObject* o) noexcept {
  PyTypeObject* t = Py_TYPE(o);
  return t == tensor_type || last_plain.is(t) || o == Py_None || t == &PyLong_Type ||
         t == &PyFloat_Type || t == &PyBool_Type || t == &PyUnicode_Type || t == &PySlice_Type ||
         t == &PyDict_Type || t == &PyEllipsis_Type || t == &PyComplex_Type || is_dtype(o) ||
         is_device(o);
}

// True if no argument, and no item of a list or tuple among them, can override.
bool all_plain(PyObject* const* args, size_t n, bool inside = false) noexcept {
  for (size_t i = 0; i < n; ++i) {
    PyObject* o = args[i];
    if (is_plain(o)) continue;
    if (inside || !(PyTuple_CheckExact(o) || PyList_CheckExact(o))) return false;
    if (!all_plain(PySequence_Fast_ITEMS(o), static_cast<size_t>(PySequence_Fast_GET_SIZE(o)),
                   true))
      return false;
  }
  return true;
}

// The check that most calls end with: true if no mode is active and no argument can override.
bool no_override_possible(PyObject* const* args, size_t n) noexcept {
  const ThreadOverrides& here = thread_overrides;
  if (here.off == kEverything) return true;
  return here.modes == 0 && (here.off == kSubclasses || all_plain(args, n));
}

}  // namespace

bool modes_active() noexcept {
  return thread_overrides.modes != 0 && thread_overrides.off != kEverything;
}

// The most derived class that defines one of the two names decides, as in Python's _protocol_name.
bool type_overrides(PyTypeObject* type) {
  static PyObject* const names[] = {PyUnicode_InternFromString("__cograd_function__"),
                                    PyUnicode_InternFromString("__torch_function__")};
  const Py_ssize_t bases = PyTuple_GET_SIZE(type->tp_mro);
  for (Py_ssize_t i = 0; i < bases; ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_mro, i);
    PyObject* dict = reinterpret_cast<PyTypeObject*>(base)->tp_dict;
    if (dict == nullptr) continue;  // static types of the interpreter have none since 3.12
    for (PyObject* name : names)
      if (PyObject* f = PyDict_GetItemWithError(dict, name)) return f != disabled_impl;
  }
  return false;
}

namespace {

// Adds `o`, or the items if it is a list or tuple, to the overriding arguments: one per type.
void collect(PyObject* o, py::list& found, bool inside = false) {
  if (is_plain(o)) return;
  if (!inside && (PyTuple_CheckExact(o) || PyList_CheckExact(o))) {
    const HeldItems items(o);
    for (Py_ssize_t i = 0; i < items.ssize(); ++i) collect(items[i], found, true);
    return;
  }
  for (const py::handle h : found)
    if (Py_TYPE(h.ptr()) == Py_TYPE(o)) return;
  if (type_overrides(Py_TYPE(o)))
    found.append(py::handle(o));
  else if (PyType_IsSubtype(Py_TYPE(o), tensor_type))  // lists have items, which may override
    last_plain = {Py_TYPE(o), Py_TYPE(o)->tp_version_tag};
}

py::tuple tuple_of(PyObject* const* items, size_t n) {
  py::tuple out(n);
  for (size_t i = 0; i < n; ++i) out[i] = py::handle(items[i]);
  return out;
}

PyObject* call_python(PyObject* func, const py::list& found, PyObject* const* args, size_t n,
                      PyObject* kwnames) {
  static PyObject* dispatch = nullptr;  // an initialiser would be locked while the import runs
  if (dispatch == nullptr)
    dispatch =
        py::object(py::module_::import("cograd.overrides").attr("_dispatch")).release().ptr();
  py::dict kwargs;
  const Py_ssize_t names = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t k = 0; k < names; ++k)
    kwargs[py::handle(PyTuple_GET_ITEM(kwnames, k))] = py::handle(args[n + static_cast<size_t>(k)]);
  return PyObject_CallFunctionObjArgs(dispatch, func, found.ptr(), tuple_of(args, n).ptr(),
                                      kwargs.ptr(), nullptr);
}

}  // namespace

bool overridden(PyObject* func, PyObject* const* args, size_t n, PyObject* kwnames,
                PyObject** out) {
  const ThreadOverrides& here = thread_overrides;
  const size_t all = n + (kwnames == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(kwnames)));
  if (no_override_possible(args, all)) return false;
  py::list found;
  if (here.off == kNone)
    for (size_t i = 0; i < all; ++i) collect(args[i], found);
  if (found.empty() && here.modes == 0) return false;
  PyObject* r = call_python(func, found, args, n, kwnames);
  if (r == Py_NotImplemented) {  // every override declined
    Py_DECREF(r);
    return false;
  }
  *out = r;
  return true;
}

bool overridden_method(const char* name, PyObject* const* args, size_t n, PyObject** out) {
  if (no_override_possible(args, n)) return false;
  const py::object f = py::handle(reinterpret_cast<PyObject*>(tensor_type)).attr(name);
  return overridden(f.ptr(), args, n, nullptr, out);
}

bool overridden_getter(const char* name, PyObject* self, PyObject** out) {
  if (no_override_possible(&self, 1)) return false;
  const py::object f =
      py::handle(reinterpret_cast<PyObject*>(tensor_type)).attr(name).attr("__get__");
  return overridden(f.ptr(), &self, 1, nullptr, out);
}

bool is_torch_tensor(PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || type == tensor_type) return false;
  if (type->tp_mro == nullptr) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (std::strcmp(base->tp_name, "Tensor") != 0 &&
        std::strcmp(base->tp_name, "torch.Tensor") != 0)
      continue;
    const py::object module =
        py::getattr(reinterpret_cast<PyObject*>(base), "__module__", py::none());
    if (py::isinstance<py::str>(module) && module.cast<std::string>() == "torch") return true;
  }
  return false;
}

void refuse_torch(const char* where, PyObject* const* values, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    PyObject* o = values[i];
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
      for (const py::handle item : py::tuple(py::reinterpret_borrow<py::object>(o))) {
        PyObject* inside = item.ptr();
        if (!PyTuple_CheckExact(inside) && !PyList_CheckExact(inside))
          refuse_torch(where, &inside, 1);
      }
    } else {
      COGRAD_CHECK_TYPE(!is_torch_tensor(Py_TYPE(o)), where,
                        "(): got a torch.Tensor, but cograd.Tensor and torch.Tensor do not mix in "
                        "one call; convert it with cograd.from_dlpack(tensor), or the other way "
                        "with torch.from_dlpack(tensor)");
    }
  }
}

namespace {

void check_subclass(PyObject* cls) {
  COGRAD_CHECK_TYPE(
      PyType_Check(cls) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), tensor_type),
      "as_subclass(): cls must be a subclass of Tensor, got ",
      std::string(py::repr(py::handle(cls))));
}

PyObject* tracked(PyObject* cls, Tensor t) {
  PyObject* o = wrap_as(reinterpret_cast<PyTypeObject*>(cls), std::move(t));
  ensure_tracked(o);
  return o;
}

}  // namespace

// Returns a view, so that writes to it and to the tensor are in the history of both.
PyObject* tensor_as_subclass(PyObject* self, PyObject* cls) {
  return guarded([&] {
    check_subclass(cls);
    return tracked(cls, alias(unwrap(self)));
  });
}

// Returns the result of an op as an object of a subclass. Nobody else has that result, so both
// share the grad_fn unless it is a leaf.
PyObject* tensor_convert_result(PyObject* self, PyObject* cls) {
  return guarded([&] {
    check_subclass(cls);
    const Tensor& t = unwrap(self);
    Node* fn = grad_fn(t.impl());
    // Keeps samples and tangents; a leaf is connected by a node.
    if (transformed(t) || (fn == nullptr && requires_grad(t))) return tracked(cls, alias(t));
    Tensor out = Tensor::steal(t->alias());
    if (t->base != nullptr) {
      t->base->retain();
      out->base = t->base;
      out->flags |= t->flags & kViewKinds;
      out->view_version = t->view_version;
    }
    if (fn != nullptr) {
      fn->retain();
      out->grad_fn = fn;
      out->output_nr = t->output_nr;
    }
    if ((t->flags & kSharesWrites) != 0) share_writes(t, out, "");
    return tracked(cls, std::move(out));
  });
}

namespace {

// Returns this thread's modes, innermost last. C++ changes the list and the count together, so that
// no interrupt can come between the two changes.
py::list mode_stack() {
  static PyObject* modes = nullptr;  // an initialiser would be locked while the import runs
  if (modes == nullptr)
    modes = py::object(py::module_::import("cograd.overrides").attr("_modes")).release().ptr();
  return py::cast<py::list>(py::handle(modes).attr("stack"));
}

py::object enter_mode(const py::object& mode) {
  mode_stack().append(mode);
  overrides_possible = true;
  ++thread_overrides.modes;
  return mode;
}

py::object pop_mode(const py::list& stack) {
  const py::object mode = stack.attr("pop")();
  --thread_overrides.modes;
  return mode;
}

void exit_mode(const py::object& mode) {
  const py::list stack = mode_stack();
  COGRAD_CHECK(!stack.empty(), Py_TYPE(mode.ptr())->tp_name,
               ".__exit__(): no mode is active on this thread");
  pop_mode(stack);
}

// Calls the innermost mode's method; while it runs, the next outer mode is the innermost.
py::object call_mode(const std::string& method, const py::object& func, const py::object& types,
                     const py::object& args, const py::object& kwargs) {
  struct ModePopped {
    const py::list stack = mode_stack();
    const py::object mode = pop_mode(stack);
    ~ModePopped() {
      if (PyList_Append(stack.ptr(), mode.ptr()) == 0)
        ++thread_overrides.modes;
      else
        PyErr_WriteUnraisable(mode.ptr());
    }
  } const aside;
  return aside.mode.attr(method.c_str())(func, types, args, kwargs);
}

void enter_off(const py::object& manager) {
  const int level = py::cast<int>(manager.attr("_level"));
  manager.attr("_before") = thread_overrides.off;
  thread_overrides.off = std::max(level, thread_overrides.off);
}

void exit_off(const py::object& manager) {
  thread_overrides.off = py::cast<int>(manager.attr("_before"));
}

}  // namespace

void init_overrides(py::module_& m) {
  m.def("_overrides_possible", [] { overrides_possible = true; });
  m.attr("_enter_function_mode") = enter_method(&enter_mode);
  m.attr("_exit_function_mode") = exit_method(&exit_mode);
  m.def("_call_function_mode", &call_mode);
  m.attr("_enter_overrides_off") = enter_method(&enter_off);
  m.attr("_exit_overrides_off") = exit_method(&exit_off);
  m.def("_overrides_off", [] { return thread_overrides.off; });
  m.def(
      "_disabled_torch_function_impl",
      [](py::object func, py::object, py::args args, py::kwargs kwargs) {
        struct Guard {
          int before = std::exchange(thread_overrides.off, static_cast<int>(kSubclasses));
          ~Guard() { thread_overrides.off = before; }
        } guard;
        const py::object given = args.empty() ? py::object(py::tuple()) : py::object(args[0]);
        const py::object named =
            args.size() < 2 || args[1].is_none() ? py::object(kwargs) : py::object(args[1]);
        return func(*py::tuple(given), **py::dict(named));
      },
      "The __torch_function__ of a subclass that overrides nothing: results are plain Tensors.");
  disabled_impl = py::object(m.attr("_disabled_torch_function_impl")).release().ptr();
}

}  // namespace cograd::python
