// SPDX-License-Identifier: BSD-3-Clause
// Node: one recorded operation. It owns its edges, knows its outputs' shapes, and stores the
// executor's run state during a backward run.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "autograd/modes/thread_state.h"
#include "autograd/modes/watch.h"
#include "tensor/published.h"
#include "tensor/tensor.h"

namespace cograd {

class NodeRef;
class SavedTensor;
struct NodeExtra;

// Receives each reference that a graph object owns, for the cycle collector.
class GraphVisitor {
 public:
  virtual ~GraphVisitor() = default;
  virtual void node(Node* n) = 0;
  virtual void tensor(TensorImpl* t) = 0;
  virtual void object(void* python_object) = 0;
};

// Shape and dtype that a gradient of an output must have.
struct OutputMeta {
  DType dtype = DType::Float32;
  Device device{DeviceType::CPU, -1};
  bool differentiable = false;
  uint8_t stream = 0;  // of the device, on which the output was computed
  Dims sizes;
};

struct Edge {
  Node* node = nullptr;  // owned
  uint32_t input_nr = 0;
};

struct BackwardArgs {
  std::span<Tensor> grads;  // one per output; undefined where no gradient arrived
  std::span<Tensor> out;    // one per edge, set by backward
  uint64_t needs_mask = ~uint64_t{0};
  const std::vector<bool>* needs_more = nullptr;  // for edge 64 and later ones
  bool create_graph = false;
  bool keep_graph = false;
  bool of_tangents = false;  // `grads` are tangents, so the formula must not conjugate
  // Tensors that saved-tensor hooks returned, by slot: each is unpacked once per call of backward.
  std::shared_ptr<std::vector<Tensor>> unpacked;
  bool needs(size_t i) const noexcept {
    if (i < 64) return ((needs_mask >> i) & 1) != 0;
    return needs_more == nullptr || (*needs_more)[i - 64];
  }
};

// The executor's state of one node in one run.
struct RunState {
  int32_t dependencies = 0;
  bool needed = true;
  bool captured = false;
  enum class Walk : uint8_t { Unseen, Open, Misses, Reaches } walk = Walk::Unseen;
  Tensor first;  // gradient of output 0
  std::unique_ptr<std::vector<Tensor>> rest;
  void reset() noexcept {
    dependencies = 0;
    needed = true;
    captured = false;
    walk = Walk::Unseen;
    first.reset();
    rest.reset();
  }
  Tensor& slot(uint32_t i, size_t outputs) {
    if (i == 0) return first;
    if (rest == nullptr) rest = std::make_unique<std::vector<Tensor>>(outputs - 1);
    return (*rest)[i - 1];
  }
};

// Declaration of the op that a node records; the members are null if the node is not an op.
struct OpText {
  const char* name = nullptr;
  const char* parameters = nullptr;
  const char* returns = nullptr;
};

class COGRAD_API Node {
 public:
  Node() noexcept : sequence(thread_state.next_sequence++) {
    if (watching(kWatchNodes)) [[unlikely]]
      report_created();
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual ~Node();

  static void* operator new(size_t n);
  static void* operator new(size_t, void* at) noexcept { return at; }
  static void operator delete(void* p, size_t n) noexcept;

  // Name as torch spells it: "MulBackward0".
  virtual std::string name() const = 0;
  virtual void backward(BackwardArgs& args) = 0;
  // Drops the saved tensors once they are no longer needed.
  virtual void release_saved() noexcept {}
  // Number of slots for saved tensors, empty ones included.
  virtual size_t num_saved() const noexcept { return 0; }
  virtual SavedTensor* saved_slot(size_t) noexcept { return nullptr; }
  // The node whose lock and `released` flag apply to the slots.
  virtual Node* saved_owner() noexcept { return this; }
  virtual OpText op_text() const noexcept { return {}; }
  virtual void visit(GraphVisitor& v) const;
  // Drops everything that can be part of a reference cycle.
  virtual void clear() noexcept;
  // Called when the number of C++ references leaves or returns to zero (see AccumulateGrad).
  virtual void first_reference() noexcept {}
  virtual void last_reference() noexcept;
  virtual bool is_accumulator() const noexcept { return false; }
  virtual bool is_python() const noexcept { return false; }

  void retain() noexcept {
    if (refs_.fetch_add(1, std::memory_order_relaxed) == 0) [[unlikely]]
      first_reference();
  }
  void release() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) last_reference();
  }
  // Takes a reference; false if the last reference is gone, so that the node is being destroyed.
  bool try_retain() noexcept {
    uint32_t n = refs_.load(std::memory_order_relaxed);
    while (n != 0 && !refs_.compare_exchange_weak(n, n + 1, std::memory_order_relaxed)) {
    }
    return n != 0;
  }
  uint32_t references() const noexcept { return refs_.load(std::memory_order_acquire); }

  std::span<Edge> edges() noexcept { return {edge_data(), num_edges_}; }
  std::span<const Edge> edges() const noexcept {
    return {const_cast<Node*>(this)->edge_data(), num_edges_};
  }
  // Adds an edge; takes over the reference on `node`.
  void add_edge(Node* node, uint32_t input_nr);
  size_t num_outputs() const noexcept { return 1 + more_outputs_.size(); }
  OutputMeta& output(size_t i) noexcept { return i == 0 ? output_ : more_outputs_[i - 1]; }
  const OutputMeta& output(size_t i) const noexcept {
    return i == 0 ? output_ : more_outputs_[i - 1];
  }
  void set_num_outputs(size_t n) {
    if (n > 1 || !more_outputs_.empty()) more_outputs_.resize(n == 0 ? 0 : n - 1);
  }
  void set_output(size_t i, const Tensor& t) {
    OutputMeta& m = output(i);
    m.dtype = t.dtype();
    m.device = t->device;
    if (t->device.type == DeviceType::CUDA) [[unlikely]]
      m.stream = stream_index(t->device);
    m.differentiable = true;
    m.sizes = Dims(t.sizes());
  }
  NodeExtra& extra();
  NodeExtra* extra_or_null() const noexcept { return extra_; }

  void lock() noexcept {
    while (lock_.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() noexcept { lock_.clear(std::memory_order_release); }

  uint64_t sequence;
  std::atomic<uint64_t> run{0};  // id of the run that uses `run_state`
  RunState run_state;
  bool released = false;  // saved tensors are gone; guarded by lock()

 protected:
  std::atomic<uint32_t> refs_{1};

 private:
  static void delete_node(void* n) noexcept { delete static_cast<Node*>(n); }
  void report_created() noexcept;
  Edge* edge_data() noexcept {
    return edge_capacity_ <= kInlineEdges ? inline_edges_ : more_edges_;
  }
  static constexpr uint32_t kInlineEdges = 2;

  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  uint32_t num_edges_ = 0;
  uint32_t edge_capacity_ = kInlineEdges;
  union {
    Edge inline_edges_[kInlineEdges] = {};
    Edge* more_edges_;
  };
  OutputMeta output_;
  std::vector<OutputMeta> more_outputs_;
  Published<NodeExtra> extra_;  // owned
};

// Runs f(p) now, or, if called during the destruction of another object, after that: a loop frees
// graphs of any depth. Each call runs f exactly once.
COGRAD_API void destroy_later(void (*f)(void*) noexcept, void* p) noexcept;

class NodeRef {
 public:
  NodeRef() noexcept = default;
  explicit NodeRef(Node* owned) noexcept : p_(owned) {}
  static NodeRef borrow(Node* n) noexcept {
    if (n != nullptr) n->retain();
    return NodeRef(n);
  }
  NodeRef(const NodeRef& o) noexcept : p_(o.p_) {
    if (p_ != nullptr) p_->retain();
  }
  NodeRef(NodeRef&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  NodeRef& operator=(NodeRef o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~NodeRef() {
    if (p_ != nullptr) p_->release();
  }
  Node* get() const noexcept { return p_; }
  Node* take() noexcept { return std::exchange(p_, nullptr); }
  Node* operator->() const noexcept { return p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }

 private:
  Node* p_ = nullptr;
};

// The arguments of a hook, which receives gradients and may replace them.
struct HookCall {
  std::vector<Tensor>& values;                // the tensors that the hook may replace
  const std::vector<Tensor>* also = nullptr;  // a post hook's second argument: grads of the outputs
};
// A callback of the layer above (Python or C++ users).
class COGRAD_API Hook {
 public:
  virtual ~Hook() = default;
  virtual void call(HookCall& call) = 0;
  virtual void visit(GraphVisitor&) const {}
};

struct HookEntry {
  uint64_t id = 0;
  uint32_t output_nr = 0;  // for a tensor hook: the output whose gradient it sees
  uint32_t scope = 0;      // the function whose backward calls it (function_scope.h); 0: every run
  std::shared_ptr<Hook> hook;
};

// The rarely used parts of a node. The lists are guarded by its lock().
struct NodeExtra {
  std::vector<HookEntry> tensor_hooks;  // see one output's gradient
  std::vector<HookEntry> pre_hooks;     // see all outputs' gradients
  std::vector<HookEntry> post_hooks;    // see results and gradients
  std::vector<HookEntry> accumulate_hooks;
  struct Retained {
    uint32_t output_nr;
    uint32_t scope;      // as in HookEntry
    TensorImpl* tensor;  // borrowed: it removes this entry before it dies
  };
  std::vector<Retained> retained;
  void* python_wrapper = nullptr;  // borrowed: the wrapper removes itself
  void* metadata = nullptr;        // owned Python dict
  void* created_at = nullptr;      // owned Python object: where the node was created (anomaly mode)
  NodeRef made_by;                 // the node whose backward was running then
  std::atomic<CopySlices*> follower{nullptr};  // borrowed: refers to this node weakly
  int64_t profiled_ns = -1;                    // time of the last profiled backward
  std::atomic<uint64_t> scope_known{0};        // cached result of scope_of() (function_scope.h)
};
// Selects a list of hooks, such as &NodeExtra::pre_hooks.
using HookList = std::vector<HookEntry> NodeExtra::*;
COGRAD_API uint64_t add_hook(Node& n, HookList list, std::shared_ptr<Hook> hook,
                             uint32_t output_nr = 0);
COGRAD_API bool remove_hook(Node& n, HookList list, uint64_t id) noexcept;
// Returns a copy of the list, because a hook that is called, or another thread, may change it.
COGRAD_API std::vector<HookEntry> hooks_of(Node& n, HookList list);
bool has_hooks(Node& n, HookList list) noexcept;

// Set by the Python layer: drops a reference on a Python object, from any thread.
COGRAD_API extern void (*release_python_object)(void*) noexcept;

// Returns the nodes created minus the nodes destroyed on this thread, for leak tests.
COGRAD_API int64_t live_nodes() noexcept;

}  // namespace cograd
