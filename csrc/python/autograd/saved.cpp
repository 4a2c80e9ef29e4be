// SPDX-License-Identifier: BSD-3-Clause
// Exposes saved tensors to Python: pack and unpack hooks, the slots of a node by name, and the list
// of everything that is saved.
#include <cstring>

#include "python/autograd/function.h"
#include "python/autograd/saved.h"
#include "python/runtime/class.h"

namespace cograd::python {

namespace {

// Owns a reference to each object that it shows to the collector.
class PyPacked final : public Packed {
 public:
  PyPacked(PyObject* value, PyObject* unpack)
      : value_(PyRef::borrow(value)), unpack_(PyRef::borrow(unpack)) {}
  Tensor tensor() const override {
    return is_tensor(value_.get()) ? unwrap(value_.get()) : Tensor();
  }
  void drop() noexcept override { value_ = PyRef(); }
  Tensor unpack(const Tensor& value) override {
    const Gil gil;
    const PyRef arg = value.defined() ? PyRef(wrap(value)) : PyRef::borrow(value_.get());
    const PyRef unpack = PyRef::borrow(unpack_.get());  // the call may release the node, and this
    const PyRef r(PyObject_CallOneArg(unpack.get(), arg.get()));
    if (r.get() == nullptr) throw_python_error();
    COGRAD_CHECK_TYPE(is_tensor(r.get()),
                      "Output of saved tensor unpack_hook expected to be a Tensor but got result "
                      "of type ",
                      Py_TYPE(r.get())->tp_name);
    return unwrap(r.get());
  }
  void visit(GraphVisitor& v) const override {
    v.object(value_.get());
    v.object(unpack_.get());
  }
  PyObject* value() const noexcept { return value_.get(); }
  PyObject* unpack_function() const noexcept { return unpack_.get(); }

 private:
  PyRef value_, unpack_;
};

class PySavedHook final : public SavedHook {
 public:
  PySavedHook(PyObject* pack, PyObject* unpack)
      : pack_(PyRef::borrow(pack)), unpack_(PyRef::borrow(unpack)) {}
  std::unique_ptr<Packed> pack(const Tensor& t) override {
    const Gil gil;
    const PyRef arg(wrap(t));
    ensure_tracked(arg.get());  // it may get a history that leads to its owner
    const PyRef pack = PyRef::borrow(pack_.get()), unpack = PyRef::borrow(unpack_.get());
    const PyRef value(PyObject_CallOneArg(pack.get(), arg.get()));
    if (value.get() == nullptr) throw_python_error();
    return std::make_unique<PyPacked>(value.get(), unpack.get());
  }

 private:
  PyRef pack_, unpack_;
};

// A node's slot, as `_raw_saved_self` returns it.
struct RawSaved {
  NodeRef node;
  size_t index;

  SavedTensor& slot(const char* what) const {
    Node* owner = node->saved_owner();
    COGRAD_CHECK(!owner->released && index < node->num_saved(), what,
                 " on a saved tensor after it has been freed. Saved intermediate values of the "
                 "graph are freed when you call .backward() or autograd.grad(). Specify "
                 "retain_graph=True if you need to backward through the graph a second time or if "
                 "you need to access saved variables after calling backward.");
    return *node->saved_slot(index);
  }
  void register_hooks(const py::function& pack, const py::function& unpack) const {
    SavedTensor& s = slot("Calling register_hooks");
    COGRAD_CHECK(s.defined(),
                 "Calling register_hooks on a saved tensor with value None is "
                 "forbidden");
    COGRAD_CHECK(!s.packed(),
                 "Calling register_hooks on a saved tensor whose hooks have already "
                 "been set. Hint: only one pair of hooks is allowed at a time.");
    SavedTensor made = s.with_hook(std::make_shared<PySavedHook>(pack.ptr(), unpack.ptr()));
    slot("Calling register_hooks").swap(made);  // the hook may have released the node
  }
  Tensor unpack() const {
    Node* owner = node->saved_owner();
    if (owner->released || index >= node->num_saved()) fail_released(owner);
    return unpack_saved(owner, *node->saved_slot(index));
  }
  const PyPacked* packed() const {
    PackedSlot* p = slot("Reading the data").packed_slot();
    return p == nullptr ? nullptr : dynamic_cast<const PyPacked*>(p->layers.back().get());
  }
  py::object data() const {
    if (const PyPacked* p = packed()) return py::reinterpret_borrow<py::object>(p->value());
    return py::reinterpret_steal<py::object>(wrap(unpack()));
  }
  py::object unpack_hook() const {
    const PyPacked* p = packed();
    return p == nullptr ? py::none() : py::reinterpret_borrow<py::object>(p->unpack_function());
  }
};

std::vector<std::string> split_names(const char* text) {
  std::vector<std::string> names;
  std::string one;
  for (const char* c = text; *c != '\0'; ++c) {
    if (*c == ',')
      names.push_back(std::exchange(one, {}));
    else if (*c != ' ')
      one.push_back(*c);
  }
  if (!one.empty()) names.push_back(one);
  return names;
}

// Returns the parameter name for every edge of an op's node, with "self" for "input" as in torch.
std::vector<std::string> edge_names(const OpText& text, size_t edges) {
  std::vector<std::string> names;
  for (const OpRecord* r : op_table()) {
    if (std::strcmp(r->spec.name, text.name) != 0 ||
        std::strcmp(r->spec.args, text.parameters) != 0)
      continue;
    size_t single = 0;
    for (const ArgInfo& a : r->args)
      single += a.kind == ArgKind::Tensor || a.kind == ArgKind::TensorOrScalar;
    for (const ArgInfo& a : r->args) {
      const std::string name = a.name == "input" ? "self" : a.name;
      if (a.kind == ArgKind::Tensor || a.kind == ArgKind::TensorOrScalar) names.push_back(name);
      if (a.kind != ArgKind::Tensors) continue;
      for (size_t i = 0; i + single < edges; ++i) names.push_back(name + "_" + std::to_string(i));
    }
    return names;
  }
  // The node is a part of another op, whose operands come first.
  names = split_names(text.parameters);
  if (names.size() > edges) names.resize(edges);
  for (std::string& name : names)
    if (name == "input") name = "self";
  return names;
}

bool same_edge(const Edge& a, const Edge& b) {
  return a.node != nullptr && a.node == b.node && a.input_nr == b.input_nr;
}

// Returns the edge along which the gradient of a slot's tensor flows (borrowed); null if there is
// none.
Edge slot_edge(const SavedTensor& s) {
  if (const PackedSlot* p = s.packed_slot()) return p->edge;
  if (!s.defined() || !requires_grad(s.raw())) return {};
  const Edge e = gradient_edge(s.raw().impl());
  if (e.node != nullptr) e.node->release();  // the tensor keeps it
  return e;
}

// Names a node's slots: first outputs, then slots whose edge identifies a parameter, then the
// others by position.
std::vector<std::string> slot_names(Node* n) {
  const OpText text = n->op_text();
  std::vector<std::string> names(n->num_saved());
  if (text.name == nullptr) return names;
  const auto edges = n->saved_owner()->edges();
  const std::vector<std::string> parameters = edge_names(text, edges.size());
  const std::vector<std::string> returns = split_names(text.returns);
  std::vector<bool> taken(parameters.size(), false);
  const auto claim = [&](size_t slot, size_t parameter) {
    names[slot] = parameters[parameter];
    taken[parameter] = true;
  };
  for (size_t i = 0; i < names.size(); ++i) {
    const SavedTensor& s = *n->saved_slot(i);
    if (s.is_output()) {
      names[i] = returns.empty() ? "result" : returns[std::min(i, returns.size() - 1)];
      continue;
    }
    const Edge e = slot_edge(s);
    for (size_t k = 0; k < parameters.size() && k < edges.size() && names[i].empty(); ++k)
      if (!taken[k] && same_edge(e, edges[k])) claim(i, k);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() && i < taken.size() && !taken[i]) claim(i, i);
    for (size_t k = 0; k < taken.size() && names[i].empty(); ++k)
      if (!taken[k]) claim(i, k);
    if (names[i].empty()) names[i] = "tensor" + std::to_string(i);
  }
  return names;
}

py::object raw_saved(Node* n, size_t i) { return py::cast(RawSaved{NodeRef::borrow(n), i}); }

// Returns one dict per non-empty slot, for every graph that Python objects reach.
py::list saved_memory() {
  using namespace py::literals;
  py::list out;
  for (const NodeRef& n : reachable_nodes()) {
    if (n->num_saved() == 0) continue;
    const std::vector<std::string> names = slot_names(n.get());
    const std::string at = watch_handlers.created_at(n.get());
    for (size_t i = 0; i < n->num_saved(); ++i) {
      const SavedTensor& s = *n->saved_slot(i);
      if (!s.defined()) continue;
      const Tensor t = held_tensor(s);
      py::object held = py::none();
      if (const PackedSlot* p = s.packed_slot()) {
        if (const auto* q = dynamic_cast<const PyPacked*>(p->layers.back().get()))
          held = py::reinterpret_borrow<py::object>(q->value());
      }
      py::dict d("node"_a = n->name(), "sequence"_a = n->sequence, "slot"_a = names[i],
                 "made_at"_a = at, "packed"_a = s.packed(), "held"_a = held, "storage"_a = 0,
                 "bytes"_a = 0, "shape"_a = py::none(), "dtype"_a = py::none());
      if (t.defined()) {
        d["storage"] = reinterpret_cast<uintptr_t>(t->storage);
        d["bytes"] = t->storage->nbytes;
        d["shape"] = py::reinterpret_steal<py::object>(size_object(t.sizes()));
        d["dtype"] = py::reinterpret_borrow<py::object>(dtype_object(t.dtype()));
      }
      out.append(d);
    }
  }
  return out;
}

// Disables hooks. Returns the previous message for restore_hooks; None if hooks were allowed.
py::object disable_hooks(const std::string& message) {
  bool was = false;
  std::string previous;
  disable_saved_hooks(&message, &was, &previous);
  return was ? py::object(py::str(previous)) : py::object(py::none());
}
void restore_hooks(const py::object& previous) {
  bool was = false;
  std::string ignored;
  const std::string text = previous.is_none() ? "" : py::cast<std::string>(previous);
  SavedHookScope* hooks = std::exchange(thread_state.saved_hooks, nullptr);
  disable_saved_hooks(previous.is_none() ? nullptr : &text, &was, &ignored);
  thread_state.saved_hooks = hooks;
}

void enter_hooks_disabled(const py::object& manager) {
  auto before = py::cast<py::list>(manager.attr("_before"));
  const py::object message = manager.attr("error_message");
  COGRAD_CHECK_TYPE(PyUnicode_Check(message.ptr()),
                    "disable_saved_tensors_hooks(): error_message must be a str, got ",
                    Py_TYPE(message.ptr())->tp_name);
  const py::object former =
      disable_hooks(utf8_text(message.ptr(), "disable_saved_tensors_hooks()"));
  try {
    before.append(former);
  } catch (...) {
    restore_hooks(former);
    throw;
  }
}

void enter_saved_hooks(const py::object& manager) {
  const py::object pack = manager.attr("pack_hook"), unpack = manager.attr("unpack_hook");
  COGRAD_CHECK_TYPE(PyCallable_Check(pack.ptr()) && PyCallable_Check(unpack.ptr()),
                    "saved_tensors_hooks(): pack_hook and unpack_hook must be callable, got ",
                    Py_TYPE(pack.ptr())->tp_name, " and ", Py_TYPE(unpack.ptr())->tp_name);
  const bool compose = py::cast<bool>(manager.attr("compose"));
  push_saved_hook(std::make_shared<PySavedHook>(pack.ptr(), unpack.ptr()), compose);
}

void exit_saved_hooks(const py::object& manager) {
  COGRAD_CHECK(thread_state.saved_hooks != nullptr, Py_TYPE(manager.ptr())->tp_name,
               ".__exit__(): no hooks of saved tensors are active on this thread");
  pop_saved_hook();
}

}  // namespace

Tensor held_tensor(const SavedTensor& s) {
  const PackedSlot* p = s.packed_slot();
  return p == nullptr ? s.raw() : p->layers.back()->tensor();
}

PyObject* node_saved_attribute(Node* n, std::string_view name) {
  const bool raw = name.starts_with("_raw_saved_");
  if (!raw && !name.starts_with("_saved_")) return nullptr;
  std::string wanted(name.substr(raw ? 11 : 7));
  if (wanted == "input") wanted = "self";
  const std::vector<std::string> names = slot_names(n);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != wanted) continue;
    if (raw) return raw_saved(n, i).release().ptr();
    return wrap(RawSaved{NodeRef::borrow(n), i}.unpack());
  }
  // A freed slot can no longer be identified by its tensor, so the name may be one of its slots.
  const OpText text = n->op_text();
  if (n->saved_owner()->released && text.name != nullptr) fail_released(n);
  return nullptr;
}

py::list node_saved_names(Node* n) {
  py::list out;
  for (const std::string& name : slot_names(n)) {
    if (name.empty()) continue;
    out.append("_saved_" + name);
    out.append("_raw_saved_" + name);
  }
  return out;
}

py::tuple raw_saved_tensors(Node* n) {
  if (n->saved_owner()->released) fail_released(n);
  py::tuple out(n->num_saved());
  for (size_t i = 0; i < out.size(); ++i) out[i] = raw_saved(n, i);
  return out;
}

py::list plain_saved_tensors(Node* n) {
  py::list out;
  if (n->saved_owner()->released) return out;
  const std::vector<std::string> names = slot_names(n);
  for (size_t i = 0; i < names.size(); ++i) {
    const SavedTensor& s = *n->saved_slot(i);
    if (s.packed_slot() != nullptr || !s.raw().defined()) continue;
    const Tensor plain = Tensor::steal(s.raw()->alias());
    out.append(py::make_tuple(names[i], py::reinterpret_steal<py::object>(wrap(plain))));
  }
  return out;
}

void init_saved(py::module_& m) {
  py::class_<RawSaved> saved(m, "SavedTensor", "One slot of a node's saved tensors.");
  forbid_new(saved);
  saved
      .def("register_hooks", &RawSaved::register_hooks, py::arg("pack_hook"),
           py::arg("unpack_hook"), "Packs the slot by a pair of hooks; at most once.")
      .def("unpack", &RawSaved::unpack, "Returns the tensor as backward would get it.")
      .def_property_readonly("data", &RawSaved::data, "What pack_hook returned, or the tensor.")
      .def_property_readonly("unpack_hook", &RawSaved::unpack_hook,
                             "The hook that unpacks the slot; None without hooks.");
  m.attr("_enter_saved_hooks") = enter_method(&enter_saved_hooks);
  m.attr("_exit_saved_hooks") = exit_method(&exit_saved_hooks);
  m.attr("_enter_hooks_disabled") = enter_method(&enter_hooks_disabled);
  m.attr("_exit_hooks_disabled") =
      exit_method([](const py::object& manager) { restore_hooks(take_before(manager)); });
  m.def("_saved_memory", &saved_memory);
  m.def("_raw_saved", [](py::handle node) { return raw_saved_tensors(node_of(node.ptr())); });
}

}  // namespace cograd::python
