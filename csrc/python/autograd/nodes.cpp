// SPDX-License-Identifier: BSD-3-Clause
// grad_fn objects, gradient hooks, and backward() and grad() for Python.
#include "python/autograd/nodes.h"

#include <structmember.h>

#include <chrono>
#include <cstring>
#include <map>

#include "autograd/graph/shared_writes.h"
#include "autograd/modes/inference.h"
#include "autograd/run/backward_job.h"
#include "python/autograd/saved.h"
#include "python/ops/overrides.h"
#include "python/runtime/signals.h"

namespace cograd::python {

PyTypeObject* node_type = nullptr;

namespace {

struct PyNodeObject {
  PyObject_HEAD Node* node;  // owned
  PyObject* weakrefs;
};

PyNodeObject* box_of(PyObject* o) { return reinterpret_cast<PyNodeObject*>(o); }

void node_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  PyObject_GC_UnTrack(o);
  const NodeRef n(std::exchange(box_of(o)->node, nullptr));
  if (n) n->extra().python_wrapper = nullptr;  // weakref callbacks must not get the dying object
  if (box_of(o)->weakrefs != nullptr) PyObject_ClearWeakRefs(o);
  type->tp_free(o);
  Py_DECREF(type);
}
int node_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(o));
  return box_of(o)->node == nullptr ? 0 : visit_node(box_of(o)->node, visit, arg);
}

// Returns the Python class for a node name. There is one class per name, so that
// type(y.grad_fn).__name__ shows the op.
PyTypeObject* wrapper_type(const std::string& name) {
  static std::map<std::string, PyTypeObject*> types;
  PyTypeObject*& type = types[name];
  if (type != nullptr) return type;
  static std::map<std::string, std::string> full_names;  // the spec's name must outlive the type
  const std::string& full = full_names.try_emplace(name, "cograd." + name).first->second;
  static PyMemberDef members[] = {
      {"__weaklistoffset__", T_PYSSIZET, offsetof(PyNodeObject, weakrefs), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                         {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
                         {Py_tp_members, members},
                         {0, nullptr}};
  PyType_Spec spec = {full.c_str(), sizeof(PyNodeObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      slots};
  PyObject* bases = PyTuple_Pack(1, node_type);
  const PyRef made(bases == nullptr ? nullptr : PyType_FromSpecWithBases(&spec, bases));
  Py_XDECREF(bases);
  if (made.get() == nullptr) throw_python_error();
  // A finalizer that ran meanwhile may have made the type; then use that one.
  if (type == nullptr) type = reinterpret_cast<PyTypeObject*>(Py_NewRef(made.get()));
  return type;
}

PyObject* node_name(PyObject* o, PyObject*) {
  return guarded([&] { return PyUnicode_FromString(node_of(o)->name().c_str()); });
}
PyObject* node_next_functions(PyObject* o, void*) {
  return guarded([&] {
    const auto edges = node_of(o)->edges();
    py::tuple out(edges.size());
    for (size_t i = 0; i < edges.size(); ++i)
      out[i] = py::make_tuple(py::reinterpret_steal<py::object>(node_object(edges[i].node)),
                              edges[i].input_nr);
    return out.release().ptr();
  });
}
PyObject* node_metadata(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    NodeExtra& e = node_of(o)->extra();
    if (e.metadata == nullptr) {
      PyRef made(PyDict_New());
      if (e.metadata == nullptr) e.metadata = made.take();  // unless a finalizer made it
    }
    PyRef d = PyRef::borrow(static_cast<PyObject*>(e.metadata));
    if (d.get() != nullptr) fill_metadata(node_of(o), d.get());
    return d.take();
  });
}
PyObject* node_variable(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    Node* n = node_of(o);
    if (n->is_accumulator()) return wrap(static_cast<AccumulateGrad*>(n)->variable());
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'",
                 n->name().c_str());
    return nullptr;
  });
}
PyObject* node_sequence(PyObject* o, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(node_of(o)->sequence); });
}
PyObject* node_requires_grad(PyObject*, void*) { Py_RETURN_TRUE; }
// Returns the metadata of the gradients that the node receives: one InputMetadata per output.
PyObject* node_input_metadata(PyObject* o, void*) {
  return guarded([&] {
    const Node* n = node_of(o);
    const py::object make = py::module_::import("cograd.autograd.graph").attr("InputMetadata");
    py::list out;
    for (size_t i = 0; i < n->num_outputs(); ++i) {
      const OutputMeta m = n->output(i);  // a copy: making objects may run code that sets the data
      py::tuple sizes(m.sizes.size());
      for (size_t d = 0; d < m.sizes.size(); ++d) sizes[d] = m.sizes[d];
      const auto device = py::reinterpret_steal<py::object>(device_object(m.device));
      out.append(make(py::handle(dtype_object(m.dtype)), sizes, device));
    }
    return out.release().ptr();
  });
}

// Looks up `_saved_self`, `_raw_saved_result`, ...: the node's saved tensors by parameter name.
PyObject* node_getattro(PyObject* o, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(o, name);
  if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr ||
      (std::strncmp(text, "_saved_", 7) != 0 && std::strncmp(text, "_raw_saved_", 11) != 0))
    return nullptr;
  PyErr_Clear();
  found = guarded([&] { return node_saved_attribute(node_of(o), text); });
  if (found == nullptr && !PyErr_Occurred())
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%s'", Py_TYPE(o)->tp_name,
                 text);
  return found;
}
PyObject* node_dir(PyObject* o, PyObject*) {
  return guarded([&] {
    py::object base = py::module_::import("builtins").attr("object").attr("__dir__");
    py::list names(base(py::handle(o)));
    for (py::handle name : node_saved_names(node_of(o))) names.append(name);
    return names.release().ptr();
  });
}

// Implements node(g0, g1, ...): runs this node alone and returns the gradients of its inputs.
PyObject* node_call(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    COGRAD_CHECK_TYPE(kwargs == nullptr || PyDict_GET_SIZE(kwargs) == 0,
                      "keyword arguments are not supported: a grad_fn takes gradients");
    const NodeRef n = NodeRef::borrow(node_of(o));
    const auto given = static_cast<size_t>(PyTuple_GET_SIZE(args));
    COGRAD_CHECK_TYPE(given == n->num_outputs(), "expected ", n->num_outputs(), " arguments, got ",
                      given, " instead: ", n->name(), " accepts one gradient per output");
    std::vector<Tensor> grads(given);
    for (size_t i = 0; i < given; ++i) {
      PyObject* g = PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i));
      if (g == Py_None) continue;
      COGRAD_CHECK_TYPE(is_tensor(g), "argument ", i, " is not a Variable: ", n->name(),
                        " accepts Tensors or None, got ", Py_TYPE(g)->tp_name);
      grads[i] = unwrap(g);
      fit_gradient(grads[i], n->output(i), n.get(), i);
    }
    std::vector<Tensor> out(n->edges().size());
    BackwardArgs run;
    run.grads = grads;
    run.out = out;
    run.create_graph = thread_state.grad_enabled;
    run.keep_graph = true;
    for (size_t i = 0; i < out.size() && i < 64; ++i)
      if (n->edges()[i].node == nullptr) run.needs_mask &= ~(uint64_t{1} << i);
    n->backward(run);
    if (out.size() == 1) return wrap(std::move(out[0]));
    py::tuple result(out.size());
    for (size_t i = 0; i < out.size(); ++i)
      result[i] = py::reinterpret_steal<py::object>(wrap(std::move(out[i])));
    return result.release().ptr();
  });
}
PyObject* node_apply(PyObject* o, PyObject* args) { return node_call(o, args, nullptr); }

PyObject* node_repr(PyObject* o) {
  return guarded(
      [&] { return PyUnicode_FromFormat("<%s object at %p>", node_of(o)->name().c_str(), o); });
}

// --- hooks -----------------------------------------------------------------------------------

std::string callable_name(PyObject* f) {
  PyObject* name = PyObject_GetAttrString(f, "__name__");
  if (name == nullptr) {
    PyErr_Clear();
    return Py_TYPE(f)->tp_name;
  }
  const char* text = PyUnicode_AsUTF8(name);
  std::string s = text != nullptr ? text : "?";
  Py_DECREF(name);
  return s;
}

// Calls a Python function on gradients. `kind` determines the form of its arguments and results.
class PyHook final : public Hook {
 public:
  enum class Kind : uint8_t { Tensor, Pre, Post, Accumulate };
  PyHook(Kind kind, PyObject* f) : kind_(kind), f_(PyRef::borrow(f)) {}
  void visit(GraphVisitor& v) const override { v.object(f_.get()); }
  void call(HookCall& call) override {
    const PyGILState_STATE gil = ensure_gil();
    struct Release {
      PyGILState_STATE s;
      ~Release() { PyGILState_Release(s); }
    } release_at_end{gil};
    switch (kind_) {
      case Kind::Tensor:
        call_tensor(call);
        break;
      case Kind::Pre:
        call_pre(call);
        break;
      case Kind::Post:
        call_post(call);
        break;
      case Kind::Accumulate: {
        const PyRef arg(wrap(call.values[0]));
        const PyRef r = check(PyRef(PyObject_CallOneArg(f_.get(), arg.get())));
        COGRAD_CHECK_TYPE(r.get() == Py_None || is_tensor(r.get()), "expected Variable, but hook '",
                          callable_name(f_.get()), "' returned '", Py_TYPE(r.get())->tp_name,
                          "': a post accumulate grad hook returns None");
        break;
      }
    }
  }

 private:
  static PyRef check(PyRef r) {
    if (r.get() == nullptr) throw_python_error();
    return r;
  }
  static PyRef tuple_of(const std::vector<Tensor>& v) {
    PyRef t = check(PyRef(PyTuple_New(static_cast<Py_ssize_t>(v.size()))));
    for (size_t i = 0; i < v.size(); ++i)
      PyTuple_SET_ITEM(t.get(), static_cast<Py_ssize_t>(i), wrap(v[i]));
    return t;
  }
  void check_value(const Tensor& old, PyObject* value) const {
    const std::string name = callable_name(f_.get());
    COGRAD_CHECK(old.defined(), "can't replace a None gradient with a non-None value (hook '", name,
                 "')");
    COGRAD_CHECK_TYPE(is_tensor(value), "expected Variable, but hook returned '",
                      Py_TYPE(value)->tp_name, "' (hook '", name, "')");
    const Tensor& t = unwrap(value);
    COGRAD_CHECK(same(t.sizes(), old.sizes()), "hook '", name,
                 "' has changed the size of value: it was ", to_string(old.sizes()), ", got ",
                 to_string(t.sizes()));
    COGRAD_CHECK(t.dtype() == old.dtype(), "hook '", name, "' has changed the type of value (was ",
                 dtype_name(old.dtype()), " got ", dtype_name(t.dtype()), ")");
  }
  void call_tensor(HookCall& call) {
    const PyRef arg(wrap(call.values[0]));
    const PyRef r = check(PyRef(PyObject_CallOneArg(f_.get(), arg.get())));
    if (r.get() == Py_None) return;
    check_value(call.values[0], r.get());
    call.values[0] = unwrap(r.get());
  }
  void replace(std::vector<Tensor>& values, PyObject* r) {
    if (r == Py_None) return;
    COGRAD_CHECK_TYPE(PyTuple_Check(r), "expected tuple, but hook returned '", Py_TYPE(r)->tp_name,
                      "' (hook '", callable_name(f_.get()), "')");
    COGRAD_CHECK(static_cast<size_t>(PyTuple_GET_SIZE(r)) == values.size(), "hook '",
                 callable_name(f_.get()), "' has returned an incorrect number of values (got ",
                 PyTuple_GET_SIZE(r), ", but expected ", values.size(), ")");
    for (size_t i = 0; i < values.size(); ++i) {
      PyObject* v = PyTuple_GET_ITEM(r, static_cast<Py_ssize_t>(i));
      if (v == Py_None) {
        values[i] = Tensor();
        continue;
      }
      check_value(values[i], v);
      values[i] = unwrap(v);
    }
  }
  void call_pre(HookCall& call) {
    const PyRef arg = tuple_of(call.values);
    replace(call.values, check(PyRef(PyObject_CallOneArg(f_.get(), arg.get()))).get());
  }
  void call_post(HookCall& call) {
    const PyRef results = tuple_of(call.values);
    const PyRef grads = tuple_of(*call.also);
    PyObject* const pair[2] = {results.get(), grads.get()};
    replace(call.values, check(PyRef(PyObject_Vectorcall(f_.get(), pair, 2, nullptr))).get());
  }
  Kind kind_;
  PyRef f_;
};

void check_callable(PyObject* hook, const char* what) {
  COGRAD_CHECK_TYPE(PyCallable_Check(hook), what, ": expected a callable, got ",
                    Py_TYPE(hook)->tp_name);
}

enum class HookKind : uint8_t { Tensor, Pre, Post, Accumulate };

HookList hook_list(HookKind which) {
  switch (which) {
    case HookKind::Tensor:
      return &NodeExtra::tensor_hooks;
    case HookKind::Pre:
      return &NodeExtra::pre_hooks;
    case HookKind::Post:
      return &NodeExtra::post_hooks;
    default:
      return &NodeExtra::accumulate_hooks;
  }
}

PyObject* make_handle(Node* n, HookKind which, uint64_t id) {
  static PyObject* type = nullptr;
  const auto node = py::reinterpret_steal<py::object>(node_object(n));
  if (type == nullptr)
    type =
        py::object(py::module_::import("cograd._base.handles").attr("_NodeHandle")).release().ptr();
  return py::handle(type)(node, static_cast<int>(which), id).release().ptr();
}

PyObject* node_register_hook(PyObject* o, PyObject* hook) {
  return guarded([&] {
    check_callable(hook, "register_hook");
    Node* n = node_of(o);
    const uint64_t id =
        add_hook(*n, &NodeExtra::post_hooks, std::make_shared<PyHook>(PyHook::Kind::Post, hook));
    return make_handle(n, HookKind::Post, id);
  });
}
PyObject* node_register_prehook(PyObject* o, PyObject* hook) {
  return guarded([&] {
    check_callable(hook, "register_prehook");
    Node* n = node_of(o);
    const uint64_t id =
        add_hook(*n, &NodeExtra::pre_hooks, std::make_shared<PyHook>(PyHook::Kind::Pre, hook));
    return make_handle(n, HookKind::Pre, id);
  });
}

// --- the executor ------------------------------------------------------------------------------

// True for a GradientEdge, or any tuple that starts with a node and an output number.
bool is_edge(PyObject* o) {
  return PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2 &&
         PyType_IsSubtype(Py_TYPE(PyTuple_GET_ITEM(o, 0)), node_type);
}
// Returns the node and output number of such a tuple.
std::pair<NodeRef, uint32_t> edge_of(PyObject* o) {
  Node* n = node_of(PyTuple_GET_ITEM(o, 0));
  const size_t nr = PyLong_AsSize_t(PyTuple_GET_ITEM(o, 1));
  if (PyErr_Occurred() != nullptr) throw_python_error();
  COGRAD_CHECK(nr < n->num_outputs(), "GradientEdge: output_nr ", nr, " of ", n->name(),
               ", which has ", n->num_outputs(), " outputs");
  return {NodeRef::borrow(n), static_cast<uint32_t>(nr)};
}

Tensor gradient_of(PyObject* grad) {
  if (grad == nullptr || grad == Py_None) return {};
  if (!is_tensor(grad)) refuse_torch("backward", &grad, 1);
  COGRAD_CHECK_TYPE(is_tensor(grad), "gradients can be either Tensors or None, but got ",
                    Py_TYPE(grad)->tp_name);
  return unwrap(grad);
}

void add_root(BackwardJob& job, PyObject* tensor, PyObject* grad, size_t index) {
  if (is_edge(tensor)) {
    const auto [node, nr] = edge_of(tensor);
    return job.add_root(node, nr, gradient_of(grad), index);
  }
  COGRAD_CHECK_TYPE(is_tensor(tensor),
                    "backward(): expected Tensors or GradientEdges to differentiate, got ",
                    Py_TYPE(tensor)->tp_name);
  job.add_root(unwrap(tensor), gradient_of(grad), index);
}

void add_input(BackwardJob& job, PyObject* tensor, bool accumulate) {
  if (is_edge(tensor)) {
    const auto [node, nr] = edge_of(tensor);
    return job.add_input(node, nr);
  }
  COGRAD_CHECK_TYPE(is_tensor(tensor), "all inputs have to be Tensors or GradientEdges, but got ",
                    Py_TYPE(tensor)->tp_name);
  job.add_input(unwrap(tensor), accumulate);
}

// Sets the history of `t` to that of `alias`, which has the same memory and geometry.
void take_history_of(py::handle t, const Tensor& alias) {
  COGRAD_CHECK_TYPE(is_tensor(t.ptr()), "_take_history: expected a Tensor, got ",
                    Py_TYPE(t.ptr())->tp_name);
  const NodeRef node = NodeRef::borrow(grad_fn(alias.impl()));
  TensorImpl* taker = unwrap(t.ptr()).impl();
  COGRAD_CHECK(node && taker->base == nullptr && same_place(taker, alias.impl()),
               "_take_history: needs a tensor, not a view, and an alias with a history");
  take_history(taker, node.get(), alias->output_nr);
  ensure_tracked(t.ptr());
}

// Returns the items of a tuple as borrowed references.
std::vector<PyObject*> items_of(PyObject* o) {
  std::vector<PyObject*> out;
  const Py_ssize_t n = PyTuple_GET_SIZE(o);
  for (Py_ssize_t i = 0; i < n; ++i) out.push_back(PyTuple_GET_ITEM(o, i));
  return out;
}

// Converts backward(inputs=...) to a tuple: one input, the values of a dict, or any iterable.
PyRef tuple_of_inputs(PyObject* inputs) {
  if (is_tensor(inputs) || is_edge(inputs))
    return PyRef(py::make_tuple(py::handle(inputs)).release().ptr());
  const PyRef values(PyDict_Check(inputs) ? PyDict_Values(inputs) : Py_NewRef(inputs));
  PyRef list(values.get() == nullptr ? nullptr : PySequence_Tuple(values.get()));
  if (list.get() == nullptr) throw_python_error();
  return list;
}

// Implements _run_backward(tensors, grads, keep_graph, create_graph, inputs or None, accumulate)
// for tuples. _run_pullback also passes the number of the transform's function whose hooks are
// called.
py::tuple run_backward_py(py::tuple tensors, py::tuple grads, bool keep, bool create,
                          py::object inputs, bool accumulate, uint32_t function) {
  BackwardJob job;
  const auto roots = items_of(tensors.ptr());
  const auto given = items_of(grads.ptr());
  COGRAD_CHECK(roots.size() == given.size(), "got ", roots.size(), " tensors and ", given.size(),
               " gradients");
  for (size_t i = 0; i < roots.size(); ++i) add_root(job, roots[i], given[i], i);
  if (!inputs.is_none())
    for (PyObject* t : items_of(inputs.ptr())) add_input(job, t, accumulate);
  job.request.accumulate = accumulate;
  job.request.keep_graph = keep;
  job.request.create_graph = create;
  if (function != 0) job.request.functions.push_back(function);
  const BackwardCaller caller;
  const std::vector<Tensor> out = job.run();
  py::tuple result(out.size());
  for (size_t i = 0; i < out.size(); ++i)
    result[i] = py::reinterpret_steal<py::object>(wrap(out[i]));
  return result;
}

// Serves signals and lets other Python threads run during a long backward run.
void serve_python() {
  if (!Py_IsInitialized()) return;
  if (!PyGILState_Check()) {
    const Gil gil;
    serve_signals();
    return;
  }
  serve_signals();
  thread_local uint32_t calls = 0;
  if (++calls % 64 != 0) return;
  // Release the lock less often than the interpreter's switch interval (5 ms): releasing and
  // retaking it sooner restarts the other threads' wait, and they never request it.
  using Clock = std::chrono::steady_clock;
  constexpr auto kBetween = std::chrono::milliseconds(20);
  thread_local Clock::time_point last{};
  const Clock::time_point now = Clock::now();
  if (now - last < kBetween) return;
  last = now;
  PyThreadState* state = PyEval_SaveThread();
  restore_thread(state);
}

int attach_thread() { return Py_IsInitialized() ? static_cast<int>(ensure_gil()) : -1; }
void detach_thread(int token) {
  if (token >= 0) PyGILState_Release(static_cast<PyGILState_STATE>(token));
}

void release_object(void* o) noexcept { const PyRef dropped(static_cast<PyObject*>(o)); }

bool truth_of(PyObject* o) {
  const int truth = PyObject_IsTrue(o);
  if (truth < 0) throw_python_error();
  return truth == 1;
}

PyObject* pick(PyObject* const* args, Py_ssize_t n, PyObject* kwnames, Py_ssize_t at,
               const char* name, size_t* used) {
  if (at < n) {
    ++*used;
    return args[at];
  }
  if (kwnames != nullptr)
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k)
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), name) == 0) {
        ++*used;
        return args[n + k];
      }
  return nullptr;
}

}  // namespace

Node* node_or_null(PyObject* o) noexcept {
  if (PyType_IsSubtype(Py_TYPE(o), function_base_type)) return function_node(o);
  // Instances of Node itself, or of a Python subclass, have no C++ node.
  const bool boxed =
      PyType_IsSubtype(Py_TYPE(o), node_type) != 0 && Py_TYPE(o)->tp_dealloc == node_dealloc;
  return boxed ? box_of(o)->node : nullptr;
}

Node* node_of(PyObject* o) {
  Node* n = node_or_null(o);
  COGRAD_CHECK_TYPE(n != nullptr || PyType_IsSubtype(Py_TYPE(o), node_type),
                    "expected a graph node, got ", Py_TYPE(o)->tp_name);
  COGRAD_CHECK_TYPE(n != nullptr, "expected the graph node of an operation, got a bare ",
                    Py_TYPE(o)->tp_name);
  return n;
}

PyObject* node_object(Node* n) {
  if (n == nullptr) Py_RETURN_NONE;
  if (n->is_python()) return function_object(n);
  NodeExtra& extra = n->extra();
  if (extra.python_wrapper != nullptr) {
    auto* o = static_cast<PyObject*>(extra.python_wrapper);
    Py_INCREF(o);
    return o;
  }
  NodeRef hold = NodeRef::borrow(n);  // making objects may run finalizers
  auto* o = PyObject_GC_New(PyNodeObject, wrapper_type(n->name()));
  if (o == nullptr) throw_python_error();
  o->node = nullptr;
  o->weakrefs = nullptr;
  if (extra.python_wrapper != nullptr) {  // a finalizer made the node's object
    Py_DECREF(reinterpret_cast<PyObject*>(o));
    return Py_NewRef(static_cast<PyObject*>(extra.python_wrapper));
  }
  o->node = hold.take();
  extra.python_wrapper = o;
  PyObject_GC_Track(o);
  return reinterpret_cast<PyObject*>(o);
}

PyObject* tensor_backward(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    size_t used = 0;
    PyObject* gradient = pick(args, n, kwnames, 0, "gradient", &used);
    PyObject* retain = pick(args, n, kwnames, 1, "retain_graph", &used);
    PyObject* create = pick(args, n, kwnames, 2, "create_graph", &used);
    PyObject* inputs = pick(args, n, kwnames, 3, "inputs", &used);
    const Py_ssize_t given = n + (kwnames != nullptr ? PyTuple_GET_SIZE(kwnames) : 0);
    COGRAD_CHECK_TYPE(used == static_cast<size_t>(given),
                      "backward(): unexpected arguments; expected backward(gradient=None, "
                      "retain_graph=None, create_graph=False, inputs=None)");
    BackwardJob job;
    job.request.create_graph = create != nullptr && truth_of(create);
    job.request.keep_graph =
        retain == nullptr || retain == Py_None ? job.request.create_graph : truth_of(retain);
    const bool some = inputs != nullptr && inputs != Py_None;
    const PyRef list = some ? tuple_of_inputs(inputs) : PyRef();
    // No user code runs from here to the run, so these checks stay valid.
    add_root(job, self, gradient, 0);
    if (some) {
      job.request.accumulate = true;
      for (PyObject* t : items_of(list.get())) add_input(job, t, true);
      COGRAD_CHECK(job.has_inputs(), "`inputs` argument to `backward()` cannot be empty.");
    }
    const BackwardCaller caller;
    job.run();
    Py_RETURN_NONE;
  });
}

PyObject* tensor_register_hook(PyObject* self, PyObject* hook) {
  return guarded([&] {
    check_callable(hook, "register_hook");
    uint64_t id = 0;
    const NodeRef node =
        add_tensor_hook(unwrap(self), std::make_shared<PyHook>(PyHook::Kind::Tensor, hook), &id);
    ensure_tracked(self);
    return make_handle(node.get(), HookKind::Tensor, id);
  });
}

PyObject* tensor_register_accumulate_hook(PyObject* self, PyObject* hook) {
  return guarded([&] {
    check_callable(hook, "register_post_accumulate_grad_hook");
    const Tensor& t = unwrap(self);
    COGRAD_CHECK(requires_grad(t),
                 "cannot register a hook on a tensor that doesn't require gradient");
    COGRAD_CHECK(is_leaf(t), "post accumulate grad hooks cannot be registered on non-leaf tensors");
    Node* n = accumulator_of(t.impl());
    const uint64_t id = add_hook(*n, &NodeExtra::accumulate_hooks,
                                 std::make_shared<PyHook>(PyHook::Kind::Accumulate, hook));
    ensure_tracked(self);
    return make_handle(n, HookKind::Accumulate, id);
  });
}

void init_nodes(py::module_& m) {
  static PyMethodDef methods[] = {
      {"name", node_name, METH_NOARGS, "Returns the node's name, like 'MulBackward0'."},
      {"apply", node_apply, METH_VARARGS,
       "Returns gradients of the inputs for those of the outputs."},
      {"register_hook", node_register_hook, METH_O,
       "Calls hook(grad_inputs, grad_outputs) after the node ran."},
      {"register_prehook", node_register_prehook, METH_O,
       "Calls hook(grad_outputs) before the node runs."},
      {"__dir__", node_dir, METH_NOARGS, nullptr},
      {"_sequence_nr", node_sequence, METH_NOARGS,
       "Position in the order of creation on its thread."},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef getset[] = {
      {"next_functions", node_next_functions, nullptr, "(node, output number) of every input.",
       nullptr},
      {"metadata", node_metadata, nullptr, "A dict for the user.", nullptr},
      {"variable", node_variable, nullptr, "The leaf of an AccumulateGrad.", nullptr},
      {"requires_grad", node_requires_grad, nullptr, nullptr, nullptr},
      {"_input_metadata", node_input_metadata, nullptr, "dtype, shape and device per output.",
       nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(node_call)},
                                {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
                                {Py_tp_getattro, reinterpret_cast<void*>(node_getattro)},
                                {Py_tp_methods, methods},
                                {Py_tp_getset, getset},
                                {Py_tp_doc, const_cast<char*>("One recorded operation.")},
                                {0, nullptr}};
  static PyType_Spec spec = {"cograd.Node", sizeof(PyObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  node_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (node_type == nullptr) throw_python_error();
  m.attr("Node") = py::handle(reinterpret_cast<PyObject*>(node_type));
  m.def("_run_backward", [](py::tuple tensors, py::tuple grads, bool keep, bool create,
                            py::object inputs, bool accumulate) {
    return run_backward_py(std::move(tensors), std::move(grads), keep, create, std::move(inputs),
                           accumulate, 0);
  });
  m.def("_run_pullback", &run_backward_py);
  m.def("_remove_hook", [](py::handle node, int which, uint64_t id) {
    return remove_hook(*node_of(node.ptr()), hook_list(static_cast<HookKind>(which)), id);
  });
  m.def("_gradient_edge", [](const Tensor& t) {
    const Edge e = gradient_edge(t.impl());
    const NodeRef hold(e.node);
    return py::make_tuple(py::reinterpret_steal<py::object>(node_object(e.node)), e.input_nr);
  });
  m.def("_current_graph_task_id", &running_id);
  m.def("_will_engine_execute_node", [](py::handle node) { return will_run(node_of(node.ptr())); });
  m.def("_is_checkpoint_valid", &runs_to_every_leaf);
  m.def("_take_history", &take_history_of);
  m.def("_share_writes", &share_writes);
  m.def("_knows_all_writes", [](const Tensor& t) { return knows_all_writes(t.impl()); });
  m.def("_same_place",
        [](const Tensor& a, const Tensor& b) { return same_place(a.impl(), b.impl()); });
  m.def("_live_nodes", &live_nodes);
  m.def("_increment_version", [](const Tensor& t) { t->bump_version(); });
  // For code that writes through the address: raises where an in-place op without a graph would.
  m.def("_check_written", [](const Tensor& t, const char* op) { check_inplace(t, op, false); });
  m.def("_set_taint", [](bool on) { return std::exchange(thread_state.taint, on); });
  m.def(
      "is_grad_enabled", [] { return thread_state.grad_enabled; },
      "True if ops are recorded on this thread.");
  m.def("_set_grad_enabled", [](bool on) {
    const bool before = thread_state.grad_enabled;
    set_grad_mode(on);
    return before;
  });
  m.def("is_inference_mode_enabled", [] { return thread_state.inference; });
  m.def("_queue_callback", [](py::function f) {
    auto held = std::make_shared<PyRef>(PyRef::borrow(f.ptr()));
    COGRAD_CHECK(queue_callback([held] {
                   const Gil gil;
                   py::handle(held->get())();
                 }),
                 "Final callbacks can only be installed during backward pass.");
  });
  engine_hooks = {serve_python, release_gil, restore_gil, attach_thread, detach_thread};
  m.def("get_num_backward_threads", &num_backward_threads,
        "Returns the number of threads that may work on one backward run.");
  m.def(
      "set_num_backward_threads", &set_num_backward_threads, py::arg("n"),
      "Sets the number of threads that may work on one backward run; results do not depend on it.");
  m.def("_set_multithreading", &set_multithreading);
  m.def("is_multithreading_enabled", &multithreading,
        "True if backward runs started on this thread may use more than one thread.");
  release_python_object = release_object;
}

}  // namespace cograd::python
