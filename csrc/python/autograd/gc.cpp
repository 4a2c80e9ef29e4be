// SPDX-License-Identifier: BSD-3-Clause
// Shows the C++ graph to Python's cycle collector. At the start of a full collection every node and
// tensor that Python objects reach gets a proxy object. Its reference count is the C++ one and it
// visits what the C++ object owns. The proxies are destroyed when the collection ends.
#include <unordered_map>

#include "autograd/run/engine.h"
#include "python/autograd/function_apply.h"
#include "python/autograd/saved.h"
#include "tensor/sparse.h"
#include "transforms/levels.h"

namespace cograd::python {

namespace {

struct Proxy {
  PyObject_HEAD Node* node;  // both null once the collection is over
  TensorImpl* tensor;
  Py_ssize_t counted;  // number of C++ references included in its reference count
};
PyTypeObject* proxy_type = nullptr;

using ProxyMap = std::unordered_map<const void*, Proxy*>;
ProxyMap* proxies = nullptr;  // only during a full collection

Py_ssize_t references_of(const Proxy& p) {
  return static_cast<Py_ssize_t>(p.tensor != nullptr ? p.tensor->refs.load()
                                                     : p.node->references());
}

// Forwards every owned reference to the collector's visit function.
class Visits final : public GraphVisitor {
 public:
  Visits(visitproc visit, void* arg) : visit_(visit), arg_(arg) {}
  void node(Node* n) override { see(n); }
  void tensor(TensorImpl* t) override { see(t); }
  void object(void* o) override {
    if (result == 0 && o != nullptr) result = visit_(static_cast<PyObject*>(o), arg_);
  }
  int result = 0;

 private:
  void see(const void* p) {
    if (proxies == nullptr) return;
    const auto it = proxies->find(p);
    // A finalizer may have taken a reference since the count. Such an object is alive, so don't
    // report it: the collector would subtract all references it counted.
    if (it != proxies->end() && references_of(*it->second) - 1 <= it->second->counted)
      object(it->second);
  }
  visitproc visit_;
  void* arg_;
};

// Visits everything a tensor owns. References to an accumulator count as references to its tensor,
// so the tensor owns what is attached to the accumulator.
void visit_tensor(TensorImpl* t, GraphVisitor& v) {
  if (t->grad_fn != nullptr) v.node(t->grad_fn);
  if (t->base != nullptr) v.tensor(t->base);
  if (t->meta != nullptr) {
    if (t->meta->grad.defined()) v.tensor(t->meta->grad.impl());
    if (t->meta->accumulator != nullptr) t->meta->accumulator->visit(v);
    if ((t->flags & (kBatched | kSparse)) != 0) v.tensor(transform_or_null(t)->whole.impl());
  }
  if ((t->flags & kOwnsPyObject) != 0) v.object(t->pyobj);
}

int proxy_traverse(PyObject* o, visitproc visit, void* arg) {
  auto* p = reinterpret_cast<Proxy*>(o);
  Visits v(visit, arg);
  if (p->tensor != nullptr) {
    visit_tensor(p->tensor, v);
  } else if (p->node == nullptr) {
    return 0;
  } else if (p->node->is_accumulator()) {
    // All references to the accumulator together hold one reference to its tensor.
    v.tensor(static_cast<AccumulateGrad*>(p->node)->variable_impl());
  } else if (p->node->is_python()) {
    v.object(static_cast<FunctionNode*>(p->node)->owner());
  } else {
    p->node->visit(v);
  }
  return v.result;
}

int proxy_clear(PyObject* o) {
  auto* p = reinterpret_cast<Proxy*>(o);
  if (p->node == nullptr && p->tensor == nullptr) return 0;
  if (p->tensor != nullptr) {
    TensorImpl* t = p->tensor;
    const Tensor hold = Tensor::borrow(t);
    Tensor grad;
    if (t->meta != nullptr) {
      grad.swap(t->meta->grad);
      if (t->meta->accumulator != nullptr) t->meta->accumulator->clear();
    }
    // Don't clear its node, which other results may need: if the node is garbage, its own proxy is
    // cleared.
  } else if (!p->node->is_accumulator() && !p->node->is_python()) {
    const NodeRef hold = NodeRef::borrow(p->node);
    p->node->clear();
  }
  return 0;
}

// Finds every C++ object reachable from the given ones.
class Discover final : public GraphVisitor {
 public:
  explicit Discover(ProxyMap& seen) : seen_(seen) {}
  void node(Node* n) override {
    if (seen_.try_emplace(n, nullptr).second) pending_.push_back({n, nullptr});
  }
  void tensor(TensorImpl* t) override {
    if (seen_.try_emplace(t, nullptr).second) pending_.push_back({nullptr, t});
  }
  void object(void*) override {}
  void run() {
    while (!pending_.empty()) {
      const auto [n, t] = pending_.back();
      pending_.pop_back();
      found.push_back({n, t});
      if (t != nullptr)
        visit_tensor(t, *this);
      else if (n->is_accumulator())
        tensor(static_cast<AccumulateGrad*>(n)->variable_impl());
      else
        n->visit(*this);
    }
  }
  struct Found {
    Node* node;
    TensorImpl* tensor;
  };
  std::vector<Found> found;

 private:
  ProxyMap& seen_;
  std::vector<Found> pending_;
};

std::vector<PyObject*>* live_proxies = nullptr;
bool counts_refreshed = false;  // true once the counts were refreshed in this collection

void end_collection() {
  if (proxies == nullptr) return;
  std::vector<NodeRef> nodes;
  std::vector<Tensor> tensors;
  for (PyObject* o : *live_proxies) {
    auto* p = reinterpret_cast<Proxy*>(o);
    if (p->node != nullptr)
      nodes.emplace_back(std::exchange(p->node, nullptr));
    else
      tensors.push_back(Tensor::steal(std::exchange(p->tensor, nullptr)));
    // Python code that ran meanwhile may hold the proxy: gc.get_objects() returns it, and
    // gc.garbage may hold it.
    Py_SET_REFCNT(o, Py_REFCNT(o) - p->counted + 1);
    if (Py_REFCNT(o) == 1) PyObject_GC_UnTrack(o);
    Py_DECREF(o);
  }
  delete live_proxies;
  delete proxies;
  live_proxies = nullptr;
  proxies = nullptr;
  end_graph_reading();
}

// Python finalizers that ran may have taken references in C++. Updates all counts before the
// collector checks which objects were resurrected. The first proxy's finalizer does it for all;
// finalizers of generation 1 run after it, and Visits::see detects the references they take.
void proxy_finalize(PyObject*) {
  if (live_proxies == nullptr || std::exchange(counts_refreshed, true)) return;
  for (PyObject* o : *live_proxies) {
    auto* p = reinterpret_cast<Proxy*>(o);
    const Py_ssize_t more = references_of(*p) - 1 - p->counted;  // one is end_collection's
    Py_SET_REFCNT(o, Py_REFCNT(o) + more);
    p->counted += more;
  }
}

// gc.get_objects, imported in advance: a collection may begin in a frame without __import__, such
// as that of a named tuple.
PyObject* get_objects = nullptr;

// Adds every tensor and node that a Python object holds.
void add_python_roots(Discover& discover) {
  py::object objects = py::handle(get_objects)();
  for (py::handle o : py::reinterpret_borrow<py::list>(objects)) {
    if (is_tensor(o.ptr())) {
      TensorImpl* t = reinterpret_cast<PyTensor*>(o.ptr())->impl;
      if (t != nullptr && (t->grad_fn != nullptr || t->meta != nullptr || t->base != nullptr))
        discover.tensor(t);
    } else if (Node* n = node_or_null(o.ptr())) {
      discover.node(n);
    }
  }
}

void make_proxies() {
  Discover discover(*proxies);
  add_python_roots(discover);
  discover.run();
  for (const auto& f : discover.found) {
    const void* key = f.node != nullptr ? static_cast<const void*>(f.node) : f.tensor;
    const uint32_t refs = f.tensor != nullptr ? f.tensor->refs.load() : f.node->references();
    if (refs == 0) {  // a ctx that no graph holds is only a Python object
      proxies->erase(key);
      continue;
    }
    auto* p = PyObject_GC_New(Proxy, proxy_type);
    if (p == nullptr) throw_python_error();
    p->node = f.node;
    p->tensor = f.tensor;
    p->counted = static_cast<Py_ssize_t>(refs);
    (*proxies)[key] = p;
    Py_SET_REFCNT(reinterpret_cast<PyObject*>(p), static_cast<Py_ssize_t>(refs));
    // Keep the object alive until the end without counting that reference: clearing one piece of
    // garbage may free another.
    if (f.tensor != nullptr)
      f.tensor->retain();
    else
      f.node->retain();
    live_proxies->push_back(reinterpret_cast<PyObject*>(p));
  }
  for (PyObject* p : *live_proxies) PyObject_GC_Track(p);
}

void begin_collection() {
  end_collection();
  if (!begin_graph_reading()) return;  // then everything counts as alive in this collection
  counts_refreshed = false;
  proxies = new ProxyMap;
  live_proxies = new std::vector<PyObject*>;
  try {
    make_proxies();
  } catch (...) {  // out of memory: everything counts as alive, and no map entry lacks a proxy
    end_collection();
    throw;
  }
}

// The callback registered in gc.callbacks.
void on_collection(const std::string& phase, const py::dict& info) {
  if (phase == "stop") {
    end_collection();
    if (py::cast<int>(info["generation"]) == 2) release_cached_memory();
  } else if (py::cast<int>(info["generation"]) == 2) {
    begin_collection();
  }
}

void proxy_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (PyObject_GC_IsTracked(o)) PyObject_GC_UnTrack(o);
  PyObject_GC_Del(o);
  Py_DECREF(type);
}

}  // namespace

int visit_impl(TensorImpl* t, visitproc visit, void* arg) {
  Visits v(visit, arg);
  v.tensor(t);
  return v.result;
}
int visit_node(Node* n, visitproc visit, void* arg) {
  Visits v(visit, arg);
  v.node(n);
  return v.result;
}
int visit_contents(Node* n, visitproc visit, void* arg) {
  Visits v(visit, arg);
  n->visit(v);
  return v.result;
}

std::vector<NodeRef> reachable_nodes() {
  ProxyMap seen;
  Discover discover(seen);
  add_python_roots(discover);
  discover.run();
  std::vector<NodeRef> nodes;
  for (const auto& f : discover.found)
    if (f.node != nullptr && f.node->references() > 0) nodes.push_back(NodeRef::borrow(f.node));
  return nodes;
}

void init_gc(py::module_& m) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(proxy_dealloc)},
                                {Py_tp_traverse, reinterpret_cast<void*>(proxy_traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(proxy_clear)},
                                {Py_tp_finalize, reinterpret_cast<void*>(proxy_finalize)},
                                {0, nullptr}};
  static PyType_Spec spec = {
      "cograd._GraphProxy", sizeof(Proxy), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  proxy_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (proxy_type == nullptr) throw_python_error();
  py::cpp_function callback(&on_collection, py::arg("phase"), py::arg("info"));
  py::module_ gc = py::module_::import("gc");
  get_objects = py::object(gc.attr("get_objects")).release().ptr();
  gc.attr("callbacks").attr("append")(callback);
  m.attr("_gc_callback") = callback;
}

}  // namespace cograd::python
