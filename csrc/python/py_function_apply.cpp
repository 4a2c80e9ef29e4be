// SPDX-License-Identifier: BSD-3-Clause
// apply() of Python Functions: forward without recording, outputs joined to the graph, backward.
#include "python/py_function_apply.h"

#include <unordered_map>

#include "python/py_ops.h"

namespace cograd::python {

namespace {

enum class Style : uint8_t { Static, Setup, Instance };

// What is known of a Function subclass. Pointers are borrowed: the class outlives its calls.
struct ClassInfo {
  PyObject* cls = nullptr;
  PyTypeObject* ctx_type = nullptr;
  PyObject* helper = nullptr;  // Python side: names for messages, binding of keywords
  Style style = Style::Static;
  Py_ssize_t parameters = -1;  // of forward after ctx; -1 if it takes *args
};

std::unordered_map<PyTypeObject*, ClassInfo>& infos() {
  static auto* map = new std::unordered_map<PyTypeObject*, ClassInfo>;
  return *map;
}

const ClassInfo& info_of(PyTypeObject* type) {
  const auto it = infos().find(type);
  COGRAD_CHECK(it != infos().end(), type->tp_name,
               ": apply and backward need a subclass of autograd.Function");
  return it->second;
}

PyObject* interned(const char* s) { return PyUnicode_InternFromString(s); }

const char* class_name(const ClassInfo& info) {
  const char* name = reinterpret_cast<PyTypeObject*>(info.cls)->tp_name;
  const char* dot = std::strrchr(name, '.');
  return dot != nullptr ? dot + 1 : name;
}

// "argument 'weight' (position 2) of MyLinear.forward (file.py:12)"
std::string describe_argument(const ClassInfo& info, size_t i) {
  py::object text = py::handle(info.helper).attr("describe_argument")(py::handle(info.cls), i);
  return py::cast<std::string>(text);
}

struct Call {
  const ClassInfo& info;
  PyFunctionObject* f;
  PyObject* const* args;
  size_t n;
  bool recording = false;
  PyObject* names = nullptr;       // of the last arguments, which forward takes by keyword only
  SmallVec<uint32_t, 4> versions;  // of tensor arguments, before forward
};

void scan_container(const Call& call, PyObject* o, size_t i) {
  bool hidden = false;
  const auto look = [&](PyObject* item) {
    hidden |= is_tensor(item) && requires_grad(unwrap(item));
  };
  if (PyDict_Check(o)) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(o, &at, &key, &value)) look(value);
  } else {
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k) look(PySequence_Fast_ITEMS(o)[k]);
  }
  if (!hidden) return;
  const std::string text = detail::concat(
      class_name(call.info), ": ", describe_argument(call.info, i),
      " is a container that hides a tensor requiring grad; only direct arguments are "
      "differentiated, so it gets no gradient. Pass it directly, or set pytree = True on the "
      "Function.");
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 2) < 0) throw_python_error();
}

// Fills the argument tables of ctx; decides whether this call is recorded.
void classify_arguments(Call& call) {
  PyFunctionObject* f = call.f;
  bool any = false;
  int edge = 0;
  for (size_t i = 0; i < call.n; ++i) {
    PyObject* a = call.args[i];
    if (is_tensor(a)) {
      const bool need = requires_grad(unwrap(a));
      any |= need;
      f->edge_of_arg.push_back(edge++);
      f->arg_needs.push_back(need);
      call.versions.push_back(unwrap(a)->current_version());
    } else {
      f->edge_of_arg.push_back(-1);
      f->arg_needs.push_back(false);
      call.versions.push_back(0);
      if ((PyList_Check(a) || PyTuple_Check(a) || PyDict_Check(a)) && thread_state.grad_enabled)
        scan_container(call, a, i);
    }
  }
  call.recording = any && thread_state.grad_enabled;
  if (!call.recording) return;
  for (size_t i = 0; i < call.n; ++i) {
    if (f->edge_of_arg[i] < 0) continue;
    const Edge e = gradient_edge(unwrap(call.args[i]).impl());
    f->node()->add_edge(e.node, e.input_nr);
  }
}

size_t positional_count(size_t n, PyObject* names) {
  return names == nullptr ? n : n - static_cast<size_t>(PyTuple_GET_SIZE(names));
}

PyRef call_with_ctx(PyObject* callable, PyObject* ctx, PyObject* const* args, size_t n,
                    PyObject* names = nullptr) {
  SmallVec<PyObject*, 8> v;
  v.push_back(nullptr);  // room for a bound self
  v.push_back(ctx);
  for (size_t i = 0; i < n; ++i) v.push_back(args[i]);
  return PyRef(PyObject_Vectorcall(callable, v.data() + 1,
                                   positional_count(n + 1, names) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                   names));
}

PyRef get_attribute(PyObject* o, PyObject* name) {
  PyRef v(PyObject_GetAttr(o, name));
  if (v.get() == nullptr) throw_python_error();
  return v;
}

PyRef run_forward(const Call& call) {
  static PyObject* forward = interned("forward");
  static PyObject* setup = interned("setup_context");
  auto* ctx = reinterpret_cast<PyObject*>(call.f);
  GradGuard no_grad(false);
  TaintGuard taint(call.recording);
  PyRef out;
  if (call.info.style == Style::Static) {
    const PyRef f = get_attribute(call.info.cls, forward);
    out = call_with_ctx(f.get(), ctx, call.args, call.n, call.names);
  } else {
    PyObject* owner = call.info.style == Style::Instance ? ctx : call.info.cls;
    const PyRef f = get_attribute(owner, forward);
    out = PyRef(
        PyObject_Vectorcall(f.get(), call.args, positional_count(call.n, call.names), call.names));
  }
  if (out.get() == nullptr) throw_python_error();
  if (call.info.style == Style::Setup) {
    const PyRef inputs(PyTuple_New(static_cast<Py_ssize_t>(call.n)));
    if (inputs.get() == nullptr) throw_python_error();
    for (size_t i = 0; i < call.n; ++i) {
      Py_INCREF(call.args[i]);
      PyTuple_SET_ITEM(inputs.get(), static_cast<Py_ssize_t>(i), call.args[i]);
    }
    const PyRef f = get_attribute(call.info.cls, setup);
    PyObject* v[4] = {nullptr, ctx, inputs.get(), out.get()};
    const PyRef done(
        PyObject_Vectorcall(f.get(), v + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (done.get() == nullptr) throw_python_error();
  }
  return out;
}

using Impls = SmallVec<TensorImpl*, 4>;

// The tensors of a tuple, null for what is none.
Impls impls_of(PyObject* tuple) {
  Impls out;
  if (tuple == nullptr) return out;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* o = PyTuple_GET_ITEM(tuple, i);
    out.push_back(is_tensor(o) ? unwrap(o).impl() : nullptr);
  }
  return out;
}
std::span<TensorImpl* const> span_of(const Impls& v) noexcept { return {v.data(), v.size()}; }

std::string describe_input(const void* call, size_t i) {
  return describe_argument(static_cast<const Call*>(call)->info, i);
}

// Lists and dicts of tensors as results would silently have no gradient.
void check_output_type(const Call& call, PyObject* o) {
  if (!call.recording || (!PyList_Check(o) && !PyDict_Check(o))) return;
  detail::fail(ErrorKind::Type, class_name(call.info), ".forward returned a ", Py_TYPE(o)->tp_name,
               "; tensors inside it would get no gradient. Return a tensor or a tuple of tensors, "
               "or set pytree = True on the Function.");
}

void keep_saved(PyFunctionObject* f, const CustomCall& joined, const Impls& before,
                const Impls& after) {
  if (f->to_save == nullptr) return;
  const PyRef list(std::exchange(f->to_save, nullptr));
  const Py_ssize_t n = PyTuple_GET_SIZE(list.get());
  f->saved.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(list.get(), i);
    SavedSlot& slot = f->saved.emplace_back();
    if (o != Py_None) slot.keep(joined, unwrap(o), span_of(before), span_of(after));
  }
}

PyObject* finish(const Call& call, const PyRef& returned) {
  PyFunctionObject* f = call.f;
  const bool many = PyTuple_Check(returned.get());
  check_output_type(call, returned.get());
  const PyRef before =
      many ? PyRef::borrow(returned.get()) : PyRef(PyTuple_Pack(1, returned.get()));
  if (before.get() == nullptr) throw_python_error();
  Impls inputs;
  for (size_t i = 0; i < call.n; ++i)
    inputs.push_back(f->edge_of_arg[i] < 0 ? nullptr : unwrap(call.args[i]).impl());
  const Impls dirty = impls_of(f->dirty), fixed = impls_of(f->non_differentiable),
              returned_impls = impls_of(before.get());
  const CustomCall joined_call{f->node(),      span_of(inputs),      span_of(dirty),
                               span_of(fixed), call.recording,       describe_input,
                               &call,          class_name(call.info)};
  check_dirty_returned(joined_call, span_of(returned_impls));
  if (call.recording)
    check_unmarked_writes(joined_call, {call.versions.data(), call.versions.size()});
  const Py_ssize_t n = PyTuple_GET_SIZE(before.get());
  const PyRef after(PyTuple_New(n));
  if (after.get() == nullptr) throw_python_error();
  f->node()->set_num_outputs(static_cast<size_t>(n));
  size_t views = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(before.get(), i);
    f->output_is_tensor.push_back(is_tensor(o));
    if (is_tensor(o)) views += unwrap(o)->base != nullptr;
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(before.get(), i);
    PyObject* out;
    if (is_tensor(o)) {
      Tensor t = unwrap(o);
      const bool again = t->grad_fn == static_cast<Node*>(f->node());
      Tensor joined =
          join_output(joined_call, again ? detach(t) : t, static_cast<uint32_t>(i), views);
      out = wrap(std::move(joined));
      if (requires_grad(unwrap(out))) ensure_tracked(out);
    } else {
      check_output_type(call, o);
      out = o;
      Py_INCREF(o);
    }
    PyTuple_SET_ITEM(after.get(), i, out);
  }
  if (call.recording) {
    keep_saved(f, joined_call, returned_impls, impls_of(after.get()));
    f->recorded = true;
  }
  Py_CLEAR(f->dirty);
  Py_CLEAR(f->non_differentiable);
  PyObject* result = many ? after.get() : PyTuple_GET_ITEM(after.get(), 0);
  Py_INCREF(result);
  return result;
}

PyObject* run(const ClassInfo& info, PyFunctionObject* f, PyObject* const* args, size_t n,
              PyObject* names = nullptr) {
  Call call{info, f, args, n, false, names, {}};
  classify_arguments(call);
  const PyRef returned = run_forward(call);
  return finish(call, returned);
}

// Keywords and defaults: brought into the order of forward's parameters by the Python helper.
py::tuple bind_keywords(const ClassInfo& info, PyObject* const* args, size_t n, PyObject* kwnames) {
  py::tuple positional(n);
  for (size_t i = 0; i < n; ++i) positional[i] = py::reinterpret_borrow<py::object>(args[i]);
  py::dict keywords;
  for (Py_ssize_t k = 0; kwnames != nullptr && k < PyTuple_GET_SIZE(kwnames); ++k)
    keywords[py::handle(PyTuple_GET_ITEM(kwnames, k))] =
        py::handle(args[n + static_cast<size_t>(k)]);
  return py::handle(info.helper).attr("bind")(py::handle(info.cls), positional, keywords);
}

PyObject* bind_and_run(const ClassInfo& info, PyFunctionObject* f, PyObject* const* args, size_t n,
                       PyObject* kwnames) {
  const bool defaults = info.style == Style::Setup && static_cast<Py_ssize_t>(n) < info.parameters;
  if ((kwnames == nullptr || PyTuple_GET_SIZE(kwnames) == 0) && !defaults)
    return run(info, f, args, n);
  const py::tuple bound = bind_keywords(info, args, n, kwnames);
  PyObject* values = PyTuple_GET_ITEM(bound.ptr(), 0);
  PyObject* names = PyTuple_GET_ITEM(bound.ptr(), 1);
  return run(info, f, PySequence_Fast_ITEMS(values), static_cast<size_t>(PyTuple_GET_SIZE(values)),
             PyTuple_GET_SIZE(names) > 0 ? names : nullptr);
}

[[noreturn]] void fail_count(const ClassInfo& info, const FunctionNode& node, size_t expected,
                             size_t got) {
  std::string names;
  for (size_t i = 0; i < expected; ++i) names += (i > 0 ? ", " : "") + describe_argument(info, i);
  detail::fail(ErrorKind::Runtime, "function ", node.name(),
               " returned an incorrect number of gradients (expected ", expected, ", got ", got,
               "): one is needed for ", names);
}

void take_gradients(const ClassInfo& info, FunctionNode& node, PyFunctionObject* f,
                    PyObject* result, BackwardArgs& args) {
  const bool many = PyTuple_Check(result);
  const size_t got = many ? static_cast<size_t>(PyTuple_GET_SIZE(result)) : 1;
  const size_t expected = f->edge_of_arg.size();
  for (size_t i = 0; i < got; ++i) {
    PyObject* g = many ? PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(i)) : result;
    if (g == Py_None) continue;
    if (i >= expected) fail_count(info, node, expected, got);
    COGRAD_CHECK(
        f->edge_of_arg[i] >= 0, "function ", node.name(),
        " returned a gradient different than None at position ", i + 1,
        ", but the corresponding forward input was not a Variable: ", describe_argument(info, i));
    COGRAD_CHECK(is_tensor(g), "expected Variable or None (got ", Py_TYPE(g)->tp_name,
                 "): ", node.name(), " returned it as the gradient of ",
                 describe_argument(info, i));
    const auto edge = static_cast<size_t>(f->edge_of_arg[i]);
    const Edge& e = node.edges()[edge];
    if (e.node == nullptr) continue;
    const OutputMeta& meta = e.node->output(e.input_nr);
    Dims joint;
    const Tensor& t = unwrap(g);
    COGRAD_CHECK(broadcast_shapes(t.sizes(), meta.sizes, joint) && same(joint, t.sizes()),
                 "Function ", node.name(), " returned an invalid gradient at index ", i, " - got ",
                 to_string(t.sizes()), " but expected shape compatible with ",
                 to_string(meta.sizes), " for ", describe_argument(info, i));
    args.out[edge] = t;
  }
  if (got < expected) fail_count(info, node, expected, got);
}

}  // namespace

void FunctionNode::backward(BackwardArgs& args) {
  static PyObject* name = interned("backward");
  const PyGILState_STATE gil = PyGILState_Ensure();
  struct Restore {
    PyGILState_STATE gil;
    PyFunctionObject* f;
    const BackwardArgs* outer;
    ~Restore() {
      f->running = outer;
      PyGILState_Release(gil);
    }
  } restore{gil, owner_, owner_->running};
  owner_->running = &args;
  const ClassInfo& info = info_of(Py_TYPE(reinterpret_cast<PyObject*>(owner_)));
  std::vector<PyRef> grads;
  grads.reserve(owner_->output_is_tensor.size());
  SmallVec<PyObject*, 4> raw;
  for (size_t i = 0; i < owner_->output_is_tensor.size(); ++i) {
    Tensor g = std::move(args.grads[i]);
    if (!g.defined() && owner_->materialize && owner_->output_is_tensor[i])
      g = autograd_ops.zeros(output(i).sizes, output(i).dtype);
    grads.emplace_back(wrap(std::move(g)));
    raw.push_back(grads.back().get());
  }
  auto* ctx = reinterpret_cast<PyObject*>(owner_);
  PyRef result;
  if (info.style == Style::Instance) {
    const PyRef f = get_attribute(ctx, name);
    result = PyRef(PyObject_Vectorcall(f.get(), raw.data(), raw.size(), nullptr));
  } else {
    const PyRef f = get_attribute(info.cls, name);
    result = call_with_ctx(f.get(), ctx, raw.data(), raw.size());
  }
  if (result.get() == nullptr) throw_python_error();
  take_gradients(info, *this, owner_, result.get(), args);
}

PyObject* function_apply(PyObject* cls, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    const ClassInfo& info = info_of(reinterpret_cast<PyTypeObject*>(cls));
    const PyRef ctx(info.style == Style::Instance ? PyObject_CallNoArgs(info.cls)
                                                  : new_function_object(info.ctx_type));
    if (ctx.get() == nullptr) throw_python_error();
    return bind_and_run(info, reinterpret_cast<PyFunctionObject*>(ctx.get()), args,
                        static_cast<size_t>(n), kwnames);
  });
}

// The first call uses the instance itself; later ones a copy of its attributes, so that the graphs
// of several calls stay apart.
PyObject* function_call_instance(PyObject* self, PyObject* const* args, Py_ssize_t n,
                                 PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const ClassInfo& info = info_of(Py_TYPE(self));
    auto* f = reinterpret_cast<PyFunctionObject*>(self);
    PyRef ctx = PyRef::borrow(self);
    if (f->used) {
      ctx = PyRef(new_function_object(Py_TYPE(self)));
      auto* fresh = reinterpret_cast<PyFunctionObject*>(ctx.get());
      if (f->dict != nullptr) fresh->dict = PyDict_Copy(f->dict);
    }
    reinterpret_cast<PyFunctionObject*>(ctx.get())->used = true;
    return bind_and_run(info, reinterpret_cast<PyFunctionObject*>(ctx.get()), args,
                        static_cast<size_t>(n), kwnames);
  });
}

void register_function(py::type cls, const std::string& style, py::object ctx_type,
                       py::object helper, Py_ssize_t parameters) {
  ClassInfo info;
  info.parameters = parameters;
  info.cls = cls.ptr();
  info.ctx_type = reinterpret_cast<PyTypeObject*>(ctx_type.ptr());
  info.helper = helper.ptr();
  info.style = style == "static"  ? Style::Static
               : style == "setup" ? Style::Setup
                                  : Style::Instance;
  infos()[reinterpret_cast<PyTypeObject*>(cls.ptr())] = info;
  infos()[info.ctx_type] = info;
}

}  // namespace cograd::python
