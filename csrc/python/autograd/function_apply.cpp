// SPDX-License-Identifier: BSD-3-Clause
// apply() of Python Functions: runs forward without recording, connects outputs to the graph, runs
// backward.
#include "python/autograd/function_apply.h"

#include <unordered_map>

#include "python/autograd/function_samples.h"
#include "python/ops/call.h"
#include "python/ops/overrides.h"

namespace cograd::python {

namespace {

enum class Style : uint8_t { Static, Setup, Instance };

// Facts about a Function subclass. Pointers are borrowed: the class outlives its calls.
struct ClassInfo {
  PyObject* cls = nullptr;
  PyTypeObject* ctx_type = nullptr;
  PyObject* helper = nullptr;  // Python object that describes arguments and binds keywords
  Style style = Style::Static;
  Py_ssize_t parameters = -1;  // number of forward's parameters after ctx; -1 if it accepts *args
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

// Returns text like "argument 'weight' (position 2) of MyLinear.forward (file.py:12)".
std::string describe_argument(const ClassInfo& info, size_t i) {
  py::object text = py::handle(info.helper).attr("describe_argument")(py::handle(info.cls), i);
  return py::cast<std::string>(text);
}

struct Call {
  const ClassInfo& info;
  PyFunctionObject* f;
  PyObject* const* args;
  size_t n;
  PyObject* names;  // names of the trailing arguments, which are keyword-only in forward
  CustomCall core;
};

// Calls `look` with every element of a list, tuple or dict, but not with elements of nested ones.
template <class F>
void each_element(PyObject* o, F&& look) {
  if (PyDict_Check(o)) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(o, &at, &key, &value)) look(value);
  } else {
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k) look(PySequence_Fast_ITEMS(o)[k]);
  }
}
bool is_container(PyObject* o) { return PyList_Check(o) || PyTuple_Check(o) || PyDict_Check(o); }

void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 2) < 0) throw_python_error();
}

void scan_argument(const Call& call, PyObject* o, size_t i) {
  bool hidden = false;
  each_element(o,
               [&](PyObject* item) { hidden |= is_tensor(item) && requires_grad(unwrap(item)); });
  if (!hidden) return;
  warn(detail::concat(class_name(call.info), ": ", describe_argument(call.info, i),
                      " is a container that hides a tensor requiring grad; only direct arguments "
                      "are differentiated, so it gets no gradient. Pass it directly, or set "
                      "pytree = True on the Function."));
}

// Reports to the core which arguments are tensors.
void classify_arguments(Call& call) {
  PyFunctionObject* f = call.f;
  int inputs = 0;
  for (size_t i = 0; i < call.n; ++i) {
    PyObject* a = call.args[i];
    if (is_tensor(a)) {
      call.core.add_input(unwrap(a).impl());
      f->input_of_arg.push_back(inputs++);
      continue;
    }
    f->input_of_arg.push_back(-1);
    if (thread_state.grad_enabled && is_container(a)) scan_argument(call, a, i);
  }
  call.core.connect();
}

size_t positional_count(size_t n, PyObject* names) {
  return names == nullptr ? n : n - static_cast<size_t>(PyTuple_GET_SIZE(names));
}

PyRef call_with_ctx(PyObject* callable, PyObject* ctx, PyObject* const* args, size_t n,
                    PyObject* names = nullptr) {
  SmallVec<PyObject*, 8> v;
  v.push_back(nullptr);  // slot for a bound self
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

PyRef run_forward(Call& call) {
  static PyObject* forward = interned("forward");
  static PyObject* setup = interned("setup_context");
  auto* ctx = reinterpret_cast<PyObject*>(call.f);
  call.core.enter();
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
  call.core.leave();
  return out;
}

using Impls = SmallVec<TensorImpl*, 4>;

// Returns the tensors of a tuple, with null for other objects.
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

// Containers are returned unchanged: tensors inside them are not outputs. Warns or raises if that
// would lose a gradient.
void check_output_type(const Call& call, PyObject* o, bool alone) {
  if (!call.core.recording() || !is_container(o)) return;
  bool hidden = false, made = false;
  each_element(o, [&](PyObject* item) {
    if (!is_tensor(item)) return;
    made |= (unwrap(item)->flags & kTaint) != 0;
    hidden |= requires_grad(unwrap(item));
  });
  if (!hidden && !made) return;
  if (alone)
    detail::fail(ErrorKind::Type, class_name(call.info), ".forward returned a ",
                 Py_TYPE(o)->tp_name,
                 "; tensors inside it would get no gradient. Return a tensor or a tuple of "
                 "tensors, or set pytree = True on the Function.");
  warn(detail::concat(class_name(call.info), ".forward returned a ", Py_TYPE(o)->tp_name,
                      " that hides a tensor ",
                      hidden ? "requiring grad" : "made from differentiable inputs",
                      "; only tensors returned directly are differentiated, so it gets no "
                      "gradient. Return it directly, or set pytree = True on the Function."));
}

// Returns the Python object for output `t`. Returns `returned` if it is the same tensor, else makes
// an object of its class, unless that class does not take part in overrides (Parameter).
PyObject* output_object(Tensor t, PyObject* returned) {
  if (t.is(unwrap(returned))) {
    Py_INCREF(returned);
    return returned;
  }
  PyTypeObject* type = Py_TYPE(returned);
  if (type == tensor_type || t->pyobj != nullptr || !type_overrides(type))
    return wrap(std::move(t));
  return wrap_as(type, std::move(t));
}

PyObject* finish(Call& call, const PyRef& returned) {
  PyFunctionObject* f = call.f;
  const bool many = PyTuple_Check(returned.get());
  const size_t n = many ? static_cast<size_t>(PyTuple_GET_SIZE(returned.get())) : 1;
  const auto item = [&](size_t i) {
    return many ? PyTuple_GET_ITEM(returned.get(), static_cast<Py_ssize_t>(i)) : returned.get();
  };
  SmallVec<Tensor, 2> outputs;
  for (size_t i = 0; i < n; ++i) {
    PyObject* o = item(i);
    outputs.push_back(is_tensor(o) ? unwrap(o) : Tensor());
    if (!is_tensor(o)) check_output_type(call, o, !many);
  }
  // Keep these tuples alive: saved-tensor hooks may run and call mark_dirty and the like again.
  const PyRef held[] = {PyRef::borrow(f->dirty), PyRef::borrow(f->non_differentiable),
                        PyRef::borrow(f->to_save)};
  const Impls dirty = impls_of(f->dirty), fixed = impls_of(f->non_differentiable),
              saved = impls_of(call.core.recording() ? f->to_save : nullptr);
  const Declared declared{span_of(dirty), span_of(fixed), span_of(saved)};
  try {
    call.core.finish({outputs.data(), n}, declared);
    if (call.core.recording()) {
      Py_CLEAR(f->to_save);
      f->recorded = true;
    }
    call.core.set_tangents({outputs.data(), n}, declared);
    Py_CLEAR(f->to_save_forward);  // every jvp has run; an output in the tuple would form a cycle
  } catch (...) {
    // Outputs that joined the graph before the error, and that ctx keeps, must be visible to the
    // cycle collector.
    for (size_t i = 0; i < n; ++i)
      if (is_tensor(item(i)) && requires_grad(unwrap(item(i)))) ensure_tracked(item(i));
    Py_CLEAR(f->to_save);
    Py_CLEAR(f->to_save_forward);
    throw;
  }
  PyRef result(many ? PyTuple_New(static_cast<Py_ssize_t>(n)) : nullptr);
  if (many && result.get() == nullptr) throw_python_error();
  for (size_t i = 0; i < n; ++i) {
    PyObject* out = item(i);
    if (!outputs[i].defined()) {
      Py_INCREF(out);
    } else {
      out = output_object(std::move(outputs[i]), out);
      if (out == nullptr) throw_python_error();
      if (requires_grad(unwrap(out))) ensure_tracked(out);
    }
    if (many)
      PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), out);
    else
      result = PyRef(out);
  }
  Py_CLEAR(f->dirty);
  Py_CLEAR(f->non_differentiable);
  return result.take();
}

PyObject* run(const ClassInfo& info, PyFunctionObject* f, PyObject* const* args, size_t n,
              PyObject* names = nullptr) {
  Call call{info, f, args, n, names, CustomCall(*f->node())};
  classify_arguments(call);
  const PyRef returned = run_forward(call);
  return finish(call, returned);
}

// Calls the Python helper, which brings keywords and defaults into the order of forward's
// parameters.
py::tuple bind_keywords(const ClassInfo& info, PyObject* const* args, size_t n, PyObject* kwnames) {
  py::tuple positional(n);
  for (size_t i = 0; i < n; ++i) positional[i] = py::reinterpret_borrow<py::object>(args[i]);
  py::dict keywords;
  for (Py_ssize_t k = 0; kwnames != nullptr && k < PyTuple_GET_SIZE(kwnames); ++k)
    keywords[py::handle(PyTuple_GET_ITEM(kwnames, k))] =
        py::handle(args[n + static_cast<size_t>(k)]);
  return py::handle(info.helper).attr("bind")(py::handle(info.cls), positional, keywords);
}

bool any_batched(PyObject* const* args, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (is_tensor(args[i]) && is_batched(unwrap(args[i]))) return true;
  return false;
}

// Returns the arguments of a function that takes batched tensors: those that are batched only by
// their tangents become batched. Empty if none is.
std::vector<py::object> with_tangent_samples(PyObject* const* args, size_t n) {
  std::vector<py::object> out;
  for (size_t i = 0; i < n; ++i) {
    if (!is_tensor(args[i])) continue;
    Tensor t = with_tangent_samples(unwrap(args[i]));
    if (t.is(unwrap(args[i]))) continue;
    if (out.empty())
      for (size_t k = 0; k < n; ++k) out.push_back(py::reinterpret_borrow<py::object>(args[k]));
    out[i] = py::reinterpret_steal<py::object>(wrap(std::move(t)));
  }
  return out;
}

PyObject* bind_and_run(const ClassInfo& info, PyFunctionObject* f, PyObject* const* args, size_t n,
                       PyObject* kwnames) {
  if (thread_state.vmaps > 0) [[unlikely]] {
    const size_t all =
        n + (kwnames != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
    if (any_batched(args, all)) {
      if (!generates_vmap_rule(info.cls)) {
        const py::tuple bound = bind_keywords(info, args, n, kwnames);
        return apply_samples(info.cls, bound[0], bound[1]);
      }
      const std::vector<py::object> own = with_tangent_samples(args, all);
      std::vector<PyObject*> pointers;
      for (const py::object& o : own) pointers.push_back(o.ptr());
      if (!own.empty()) return bind_and_run(info, f, pointers.data(), n, kwnames);
    }
  }
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

}  // namespace

std::string FunctionNode::function_name() const {
  const ClassInfo& info = info_of(Py_TYPE(reinterpret_cast<PyObject*>(owner_)));
  const py::object op = py::handle(info.cls).attr("_op_name");
  return op.is_none() ? class_name(info) : "op '" + py::cast<std::string>(op) + "'";
}

std::string FunctionNode::describe_input(size_t i) const {
  return describe_argument(info_of(Py_TYPE(reinterpret_cast<PyObject*>(owner_))), argument_of(i));
}

void FunctionNode::take_gradients(PyObject* result, BackwardArgs& args) {
  const ClassInfo& info = info_of(Py_TYPE(reinterpret_cast<PyObject*>(owner_)));
  const auto& inputs = owner_->input_of_arg;
  const bool many = PyTuple_Check(result);
  const size_t got = many ? static_cast<size_t>(PyTuple_GET_SIZE(result)) : 1;
  for (size_t i = 0; i < got; ++i) {
    PyObject* g = many ? PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(i)) : result;
    if (g == Py_None) continue;
    if (i >= inputs.size()) fail_count(info, *this, inputs.size(), got);
    COGRAD_CHECK(
        inputs[i] >= 0, "function ", name(),
        " returned a gradient different than None at position ", i + 1,
        ", but the corresponding forward input was not a Variable: ", describe_argument(info, i));
    COGRAD_CHECK(is_tensor(g), "expected Variable or None (got ", Py_TYPE(g)->tp_name,
                 "): ", name(), " returned it as the gradient of ", describe_argument(info, i));
    set_gradient(args, static_cast<size_t>(inputs[i]), unwrap(g), i);
  }
  if (got < inputs.size()) fail_count(info, *this, inputs.size(), got);
}

void FunctionNode::call_backward(BackwardArgs& args) {
  static PyObject* name = interned("backward");
  struct Lock {
    PyGILState_STATE state = ensure_gil();
    ~Lock() { PyGILState_Release(state); }
  } const gil;
  const ClassInfo& info = info_of(Py_TYPE(reinterpret_cast<PyObject*>(owner_)));
  std::vector<PyRef> grads;
  grads.reserve(num_returned());
  SmallVec<PyObject*, 4> raw;
  for (size_t i = 0; i < num_returned(); ++i) {
    grads.emplace_back(wrap(std::move(args.grads[i])));
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
  take_gradients(result.get(), args);
}

namespace {

py::object base_class() { return py::module_::import("cograd.autograd.function").attr("Function"); }

// Returns a tangent for each argument of forward; None for arguments without one.
py::tuple tangents_of_arguments(const SmallVec<int, 4>& input_of_arg,
                                std::span<const Tensor> tangents) {
  py::tuple out(input_of_arg.size());
  for (size_t i = 0; i < input_of_arg.size(); ++i) {
    const int input = input_of_arg[i];
    const Tensor t = input >= 0 ? tangents[static_cast<size_t>(input)] : Tensor();
    out[i] = t.defined() ? py::reinterpret_steal<py::object>(wrap(t)) : py::none();
  }
  return out;
}

}  // namespace

bool FunctionNode::has_jvp() const {
  const py::handle type(reinterpret_cast<PyObject*>(Py_TYPE(reinterpret_cast<PyObject*>(owner_))));
  const py::handle cls(info_of(reinterpret_cast<PyTypeObject*>(type.ptr())).cls);
  return !cls.attr("jvp").is(base_class().attr("jvp"));
}

bool FunctionNode::has_backward() const {
  const py::handle type(reinterpret_cast<PyObject*>(Py_TYPE(reinterpret_cast<PyObject*>(owner_))));
  const py::handle cls(info_of(reinterpret_cast<PyTypeObject*>(type.ptr())).cls);
  return !cls.attr("backward").is(base_class().attr("backward")) &&
         py::cast<bool>(cls.attr("_has_formula"));
}

bool FunctionNode::accepts_batched() const {
  const py::handle type(reinterpret_cast<PyObject*>(Py_TYPE(reinterpret_cast<PyObject*>(owner_))));
  return generates_vmap_rule(info_of(reinterpret_cast<PyTypeObject*>(type.ptr())).cls);
}

std::string FunctionNode::jvp_to_write() const {
  const py::handle cls(info_of(Py_TYPE(reinterpret_cast<PyObject*>(owner_))).cls);
  const py::object op = cls.attr("_op_name");
  if (!op.is_none())
    return "    @cograd.library.register_jvp(\"" + py::cast<std::string>(op) +
           "\")\n"
           "    def jvp(ctx, *input_tangents):  # None where an input has none\n"
           "        return output_tangents";
  return "    @staticmethod\n"
         "    def jvp(ctx, *input_tangents):  # None where an input has none\n"
         "        return output_tangents";
}

std::vector<Tensor> FunctionNode::call_jvp(std::vector<Tensor> tangents) {
  const ClassInfo& info = info_of(Py_TYPE(reinterpret_cast<PyObject*>(owner_)));
  const py::tuple args = tangents_of_arguments(owner_->input_of_arg, tangents);
  struct InJvp {
    PyFunctionObject* f;
    explicit InJvp(PyFunctionObject* o) : f(o) { f->in_jvp = true; }
    ~InJvp() { f->in_jvp = false; }
  } const running(owner_);
  const py::handle ctx(reinterpret_cast<PyObject*>(owner_));
  const py::object result = py::handle(info.cls).attr("jvp")(ctx, *args);
  std::vector<Tensor> out;
  const auto take = [&](py::handle item) {
    COGRAD_CHECK_TYPE(item.is_none() || is_tensor(item.ptr()), function_name(), ".jvp returned a ",
                      Py_TYPE(item.ptr())->tp_name, ", expected a Tensor or None for each output");
    out.push_back(item.is_none() ? Tensor() : unwrap(item.ptr()));
  };
  if (py::isinstance<py::tuple>(result))
    for (const py::handle item : py::reinterpret_borrow<py::tuple>(result)) take(item);
  else
    take(result);
  return out;
}

PyObject* function_apply(PyObject* cls, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] {
    const ClassInfo& info = info_of(reinterpret_cast<PyTypeObject*>(cls));
    const PyRef ctx(info.style == Style::Instance ? PyObject_CallNoArgs(info.cls)
                                                  : new_function_object(info.ctx_type));
    if (ctx.get() == nullptr) throw_python_error();
    return or_stopped(bind_and_run(info, reinterpret_cast<PyFunctionObject*>(ctx.get()), args,
                                   static_cast<size_t>(n), kwnames));
  });
}

// The first call uses the instance itself. Later calls use a copy of its attributes, so that the
// graphs of several calls stay separate.
PyObject* function_call_instance(PyObject* self, PyObject* const* args, Py_ssize_t n,
                                 PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const ClassInfo& info = info_of(Py_TYPE(self));
    auto* f = reinterpret_cast<PyFunctionObject*>(self);
    PyRef ctx = PyRef::borrow(self);
    if (f->used) {
      ctx = PyRef(new_function_object(Py_TYPE(self)));
      auto* fresh = reinterpret_cast<PyFunctionObject*>(ctx.get());
      const PyRef attributes = PyRef::borrow(f->dict);
      if (attributes.get() != nullptr) Py_XSETREF(fresh->dict, PyDict_Copy(attributes.get()));
    }
    reinterpret_cast<PyFunctionObject*>(ctx.get())->used = true;
    return or_stopped(bind_and_run(info, reinterpret_cast<PyFunctionObject*>(ctx.get()), args,
                                   static_cast<size_t>(n), kwnames));
  });
}

namespace {

// Keeps the info until the class is destroyed: a later class may have the same address.
void keep_info(const py::object& cls, const ClassInfo& info) {
  auto* key = reinterpret_cast<PyTypeObject*>(cls.ptr());
  const bool known = infos().contains(key);
  infos()[key] = info;
  if (known) return;
  const auto forget = [key](py::handle reference) {
    infos().erase(key);
    reference.dec_ref();
  };
  py::weakref(cls, py::cpp_function(forget)).release();
}

}  // namespace

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
  keep_info(cls, info);
  keep_info(ctx_type, info);
}

}  // namespace cograd::python
