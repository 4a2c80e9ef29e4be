// SPDX-License-Identifier: BSD-3-Clause
// The ctx type of Python Functions: the methods that forward and backward call, its node and its
// memory.
#include "python/autograd/function.h"

#include <structmember.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "python/autograd/function_apply.h"
#include "python/autograd/saved.h"

namespace cograd::python {

PyTypeObject* function_base_type = nullptr;

namespace {

PyFunctionObject* self_of(PyObject* o) { return reinterpret_cast<PyFunctionObject*>(o); }

PyObject* function_new(PyTypeObject* type, PyObject*, PyObject*) {
  return guarded([&] { return new_function_object(type); });
}

void free_function(void* p) noexcept {
  auto* o = static_cast<PyObject*>(p);
  PyFunctionObject* f = self_of(o);
  PyTypeObject* type = Py_TYPE(o);
  if (f->weakrefs != nullptr) PyObject_ClearWeakRefs(o);
  Py_CLEAR(f->dict);
  Py_CLEAR(f->to_save);
  Py_CLEAR(f->to_save_forward);
  Py_CLEAR(f->dirty);
  Py_CLEAR(f->non_differentiable);
  Py_CLEAR(f->needs_override);
  f->node()->~FunctionNode();
  f->input_of_arg.~SmallVec();
  type->tp_free(o);
  Py_DECREF(type);
}

void function_dealloc(PyObject* o) {
  if (PyObject_GC_IsTracked(o)) PyObject_GC_UnTrack(o);
  // The object may own a long chain of such objects; destroy_later frees the chain in a loop.
  destroy_later(free_function, o);
}

int function_traverse(PyObject* o, visitproc visit, void* arg) {
  PyFunctionObject* f = self_of(o);
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(f->dict);
  Py_VISIT(f->to_save);
  Py_VISIT(f->to_save_forward);
  Py_VISIT(f->dirty);
  Py_VISIT(f->non_differentiable);
  Py_VISIT(f->needs_override);
  return visit_contents(f->node(), visit, arg);
}

int function_clear(PyObject* o) {
  PyFunctionObject* f = self_of(o);
  Py_CLEAR(f->dict);
  Py_CLEAR(f->to_save);
  Py_CLEAR(f->to_save_forward);
  Py_CLEAR(f->dirty);
  Py_CLEAR(f->non_differentiable);
  Py_CLEAR(f->needs_override);
  f->node()->clear();
  return 0;
}

// --- called by forward ------------------------------------------------------------------------

PyObject* save_for_backward(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    PyFunctionObject* f = self_of(o);
    if (f->to_save != nullptr)
      detail::fail(ErrorKind::Runtime, f->node()->name(),
                   ": save_for_backward was called a second time; call it once with everything "
                   "backward needs (torch silently drops the first call's tensors)");
    COGRAD_CHECK(!f->recorded, f->node()->name(),
                 ": save_for_backward can only be called in forward or setup_context");
    for (Py_ssize_t i = 0; i < n; ++i)
      COGRAD_CHECK_TYPE(args[i] == Py_None || is_tensor(args[i]),
                        "save_for_backward can only save variables, but argument ", i,
                        " is of type ", Py_TYPE(args[i])->tp_name,
                        "; keep other objects as attributes of ctx");
    PyObject* t = PyTuple_New(n);
    if (t == nullptr) return nullptr;
    for (Py_ssize_t i = 0; i < n; ++i) {
      Py_INCREF(args[i]);
      PyTuple_SET_ITEM(t, i, args[i]);
    }
    Py_XSETREF(f->to_save, t);
    Py_RETURN_NONE;
  });
}

PyObject* keep_tuple(PyObject** slot, PyObject* const* args, Py_ssize_t n, const char* what,
                     ErrorKind kind = ErrorKind::Runtime, bool or_none = false) {
  return guarded([&]() -> PyObject* {
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!is_tensor(args[i]) && !(or_none && args[i] == Py_None))
        detail::fail(kind, what, ": expected Tensors, but argument ", i, " is of type ",
                     Py_TYPE(args[i])->tp_name);
    PyObject* t = PyTuple_New(n);
    if (t == nullptr) return nullptr;
    for (Py_ssize_t i = 0; i < n; ++i) {
      Py_INCREF(args[i]);
      PyTuple_SET_ITEM(t, i, args[i]);
    }
    Py_XSETREF(*slot, t);
    Py_RETURN_NONE;
  });
}
PyObject* mark_dirty(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return keep_tuple(&self_of(o)->dirty, args, n, "mark_dirty");
}
PyObject* mark_non_differentiable(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return keep_tuple(&self_of(o)->non_differentiable, args, n, "mark_non_differentiable");
}
PyObject* save_for_forward(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return keep_tuple(&self_of(o)->to_save_forward, args, n, "save_for_forward", ErrorKind::Type,
                    true);
}
PyObject* set_materialize_grads(PyObject* o, PyObject* value) {
  if (!PyBool_Check(value)) {
    PyErr_Format(PyExc_TypeError, "set_materialize_grads: expected a bool, got %s",
                 Py_TYPE(value)->tp_name);
    return nullptr;
  }
  self_of(o)->node()->set_materialize_grads(value == Py_True);
  Py_RETURN_NONE;
}

// --- called by backward -----------------------------------------------------------------------

// Returns a tensor saved by forward as the running jvp may see it: batched tensors of vmaps that
// have ended are translated to the vmap levels reopened for the jvp.
Tensor saved_for_jvp(FunctionNode& node, const Tensor& t, size_t index) {
  const Tensor& memory = physical_tensor(t);
  if (!is_intermediate(memory)) return node.rewrapped_here(t);
  const Tensor seen = guarded_intermediate(node, memory, detail::concat("saved tensor ", index));
  return node.rewrapped_here(seen.is(memory) ? t : batched_like(t, seen));
}

PyObject* saved_for_forward_here(PyFunctionObject* f) {
  const auto kept = py::reinterpret_borrow<py::tuple>(f->to_save_forward);
  py::tuple out(kept.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    out[i] = kept[i];
    if (!is_tensor(py::handle(out[i]).ptr())) continue;
    const Tensor& t = unwrap(py::handle(out[i]).ptr());
    if (const Tensor seen = saved_for_jvp(*f->node(), t, i); !seen.is(t))
      out[i] = py::reinterpret_steal<py::object>(wrap(seen));
  }
  return out.release().ptr();
}

PyObject* get_saved_tensors(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    PyFunctionObject* f = self_of(o);
    if (f->in_jvp && f->to_save_forward != nullptr) return saved_for_forward_here(f);
    if (!f->recorded) {
      if (f->to_save == nullptr) return PyTuple_New(0);
      Py_INCREF(f->to_save);
      return f->to_save;
    }
    if (f->node()->released) fail_released(f->node());
    const size_t n = f->node()->num_saved();
    PyObject* out = PyTuple_New(static_cast<Py_ssize_t>(n));
    if (out == nullptr) return nullptr;
    for (size_t i = 0; i < n; ++i) {
      PyObject* item = nullptr;
      try {
        item = wrap(f->node()->saved(i));
      } catch (...) {
        Py_DECREF(out);
        throw;
      }
      PyTuple_SET_ITEM(out, static_cast<Py_ssize_t>(i), item);
    }
    return out;
  });
}

PyObject* get_raw_saved(PyObject* o, void*) {
  return guarded([&] { return raw_saved_tensors(self_of(o)->node()).release().ptr(); });
}

PyObject* get_needs_input_grad(PyObject* o, void*) {
  PyFunctionObject* f = self_of(o);
  if (f->needs_override != nullptr) {
    Py_INCREF(f->needs_override);
    return f->needs_override;
  }
  const auto n = static_cast<Py_ssize_t>(f->input_of_arg.size());
  PyObject* out = PyTuple_New(n);
  if (out == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) {
    const int input = f->input_of_arg[static_cast<size_t>(i)];
    const bool need = input >= 0 && f->node()->needs_input(static_cast<size_t>(input));
    PyTuple_SET_ITEM(out, i, PyBool_FromLong(need));
  }
  return out;
}
int set_needs_input_grad(PyObject* o, PyObject* value, void*) {
  Py_XINCREF(value);
  Py_XSETREF(self_of(o)->needs_override, value);
  return 0;
}

template <PyObject* PyFunctionObject::* Field>
PyObject* get_field(PyObject* o, void*) {
  PyObject* v = self_of(o)->*Field;
  if (v == nullptr) Py_RETURN_NONE;
  Py_INCREF(v);
  return v;
}

PyObject* get_saved_for_forward(PyObject* o, void* closure) {
  return guarded([&]() -> PyObject* {
    PyFunctionObject* f = self_of(o);
    if (f->in_jvp && f->to_save_forward != nullptr) return saved_for_forward_here(f);
    return get_field<&PyFunctionObject::to_save_forward>(o, closure);
  });
}

// Guards an intermediate of forward that is kept as an attribute, so that it cannot silently lose
// its part of a second derivative.
PyObject* function_getattro(PyObject* o, PyObject* name) {
  PyObject* v = PyObject_GenericGetAttr(o, name);
  if (v == nullptr || !is_tensor(v)) return v;
  const Tensor& t = unwrap(v);
  FunctionNode* node = self_of(o)->node();
  const Tensor& memory = physical_tensor(t);
  const bool guard = is_intermediate(memory) && (node->running() || self_of(o)->in_jvp);
  if (!guard && !is_batched(t)) return v;
  PyObject* out = guarded([&] {
    if (!guard) return wrap(node->rewrapped_here(t));
    const char* text = PyUnicode_AsUTF8(name);
    const Tensor closed =
        guarded_intermediate(*node, memory, std::string("attribute ctx.") + (text ? text : "?"));
    if (closed.is(t)) return py::reinterpret_borrow<py::object>(v).release().ptr();
    return wrap(node->rewrapped_here(batched_like(t, closed)));
  });
  Py_DECREF(v);
  return out;
}

#define FASTCALL(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f))

}  // namespace

namespace {

// Implements Function.apply. On a class it runs forward. On a ctx, which may be an instance of that
// class, it runs the node's backward, as grad_fn.apply does.
PyObject* backward_apply = nullptr;
struct ApplyDescriptor {
  PyObject_HEAD PyObject* of_class;
};
PyObject* apply_get(PyObject* self, PyObject* object, PyObject* type) {
  if (object != nullptr && object != Py_None) {
    return Py_TYPE(backward_apply)->tp_descr_get(backward_apply, object, type);
  }
  PyObject* method = reinterpret_cast<ApplyDescriptor*>(self)->of_class;
  return Py_TYPE(method)->tp_descr_get(method, nullptr, type);
}
PyObject* make_apply_descriptor(PyObject* of_class) {
  static PyType_Slot slots[] = {{Py_tp_descr_get, reinterpret_cast<void*>(apply_get)},
                                {0, nullptr}};
  static PyType_Spec spec = {"cograd._Apply", sizeof(ApplyDescriptor), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) throw_python_error();
  auto* d = PyObject_New(ApplyDescriptor, type);
  d->of_class = of_class;
  return reinterpret_cast<PyObject*>(d);
}

}  // namespace

PyObject* new_function_object(PyTypeObject* type) {
  PyObject* o = type->tp_alloc(type, 0);
  if (o == nullptr) throw_python_error();
  PyFunctionObject* f = self_of(o);
  new (&f->input_of_arg) decltype(f->input_of_arg);
  new (f->node_bytes) FunctionNode(f);
  return o;
}

PyObject* function_object(Node* n) {
  auto* o = reinterpret_cast<PyObject*>(static_cast<FunctionNode*>(n)->owner());
  Py_INCREF(o);
  return o;
}
Node* function_node(PyObject* o) { return self_of(o)->node(); }

// --- the node ----------------------------------------------------------------------------------

std::string FunctionNode::name() const {
  const char* name = Py_TYPE(reinterpret_cast<PyObject*>(owner_))->tp_name;
  const char* dot = std::strrchr(name, '.');
  return dot != nullptr ? dot + 1 : name;
}
void FunctionNode::first_reference() noexcept { Py_INCREF(reinterpret_cast<PyObject*>(owner_)); }
void FunctionNode::last_reference() noexcept {
  destroy_later([](void* o) noexcept { const PyRef dropped(static_cast<PyObject*>(o)); }, owner_);
}
size_t FunctionNode::argument_of(size_t i) const noexcept {
  const auto& inputs = owner_->input_of_arg;
  return static_cast<size_t>(std::find(inputs.begin(), inputs.end(), static_cast<int>(i)) -
                             inputs.begin());
}

void init_function(py::module_& m) {
  static PyMethodDef methods[] = {
      {"save_for_backward", FASTCALL(save_for_backward), METH_FASTCALL,
       "Saves tensors (or None) for backward; call it at most once."},
      {"save_for_forward", FASTCALL(save_for_forward), METH_FASTCALL,
       "Saves tensors (or None) for jvp."},
      {"mark_dirty", FASTCALL(mark_dirty), METH_FASTCALL,
       "Declares inputs that forward wrote in place; each must be returned."},
      {"mark_non_differentiable", FASTCALL(mark_non_differentiable), METH_FASTCALL,
       "Declares outputs that have no gradient."},
      {"set_materialize_grads", set_materialize_grads, METH_O,
       "Whether undefined gradients reach backward as zeros (default) or as None."},
      {"_call_instance", FASTCALL(function_call_instance), METH_FASTCALL | METH_KEYWORDS,
       "Runs an instance-style Function."},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef getset[] = {
      {"saved_tensors", get_saved_tensors, nullptr, "Saved by save_for_backward.", nullptr},
      {"_raw_saved_tensors", get_raw_saved, nullptr, "The slots of saved_tensors.", nullptr},
      {"saved_variables", get_saved_tensors, nullptr, "Old name of saved_tensors.", nullptr},
      {"needs_input_grad", get_needs_input_grad, set_needs_input_grad,
       "True for each argument whose gradient is needed (in backward: by this run).", nullptr},
      {"to_save", get_field<&PyFunctionObject::to_save>, nullptr, nullptr, nullptr},
      {"saved_for_forward", get_saved_for_forward, nullptr, "Saved by save_for_forward.", nullptr},
      {"dirty_tensors", get_field<&PyFunctionObject::dirty>, nullptr, nullptr, nullptr},
      {"non_differentiable", get_field<&PyFunctionObject::non_differentiable>, nullptr, nullptr,
       nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyMemberDef members[] = {
      {"__dictoffset__", T_PYSSIZET, offsetof(PyFunctionObject, dict), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(PyFunctionObject, weakrefs), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(function_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(function_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(function_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(function_clear)},
      {Py_tp_getattro, reinterpret_cast<void*>(function_getattro)},
      {Py_tp_methods, methods},
      {Py_tp_getset, getset},
      {Py_tp_members, members},
      {Py_tp_doc, const_cast<char*>("Context and graph node of a custom Function.")},
      {0, nullptr}};
  static PyType_Spec spec = {"cograd._FunctionBase", sizeof(PyFunctionObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  PyObject* bases = PyTuple_Pack(1, node_type);
  function_base_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, bases));
  Py_XDECREF(bases);
  if (function_base_type == nullptr) throw_python_error();
  backward_apply = PyObject_GetAttrString(reinterpret_cast<PyObject*>(node_type), "apply");
  if (backward_apply == nullptr) throw_python_error();
  static PyMethodDef apply = {"apply", FASTCALL(function_apply),
                              METH_FASTCALL | METH_KEYWORDS | METH_CLASS,
                              "apply($type, /, *args, **kwargs)\n--\n\n"
                              "Runs and records forward with the arguments after ctx."};
  m.attr("_function_apply") = py::reinterpret_steal<py::object>(
      make_apply_descriptor(PyDescr_NewClassMethod(function_base_type, &apply)));
  m.attr("_FunctionBase") = py::handle(reinterpret_cast<PyObject*>(function_base_type));
  m.def("_register_function", &register_function);
  // Used by once_differentiable: says that its backward runs; returns whether one ran before.
  m.def("_exchange_once", [](bool on) { return std::exchange(thread_state.once, on); });
  // Used by once_differentiable: marks results of backward as not differentiable again.
  m.def("_once_differentiable", [](const Tensor& t, py::handle ctx) {
    COGRAD_CHECK_TYPE(PyType_IsSubtype(Py_TYPE(ctx.ptr()), function_base_type),
                      "once_differentiable: expected the ctx of a Function, got ",
                      Py_TYPE(ctx.ptr())->tp_name);
    return self_of(ctx.ptr())->node()->once_differentiable(t);
  });
}

}  // namespace cograd::python
