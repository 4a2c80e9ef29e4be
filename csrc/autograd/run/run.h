// SPDX-License-Identifier: BSD-3-Clause
// Run: one backward run and its run state of each node. Internal to the executor.
#pragma once
#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "autograd/run/engine.h"

namespace cograd {

class ParallelRun;

struct Newest {
  bool operator()(const Node* a, const Node* b) const noexcept { return a->sequence < b->sequence; }
};

class Run {
 public:
  explicit Run(BackwardRequest& request);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  std::vector<Tensor> execute();
  void queue(std::function<void()> f);
  uint64_t id() const noexcept { return id_; }
  bool to_every_leaf() const noexcept { return request_.inputs.empty(); }
  bool will_run(Node* n) {
    if (n->run.load(std::memory_order_acquire) != id_ && !side_.contains(n)) return false;
    const RunState& b = run_state(n);
    return b.needed || b.captured;
  }
  // True if this run calls hooks with this HookEntry::scope.
  bool serves(uint32_t scope) const noexcept {
    const auto& list = request_.functions;
    return scope == 0 || transform_hooks.function_runs(scope) ||
           std::find(list.begin(), list.end(), scope) != list.end();
  }
  void append_function_ids(std::vector<uint32_t>& to) const {
    to.insert(to.end(), request_.functions.begin(), request_.functions.end());
  }
  Run* outer() const noexcept { return outer_; }
  // True once the thread that waits for this run was interrupted.
  std::atomic<bool>& cancelled() noexcept { return *cancelled_; }

 private:
  friend class ParallelRun;
  // Results of survey(), used to decide whether several threads are worthwhile.
  struct Shape {
    int64_t heavy = 0;
    bool branches = false;
  };

  RunState& run_state(Node* n) {
    return n->run.load(std::memory_order_relaxed) == id_ ? n->run_state : side_.find(n)->second;
  }
  bool claim(Node* n);
  void count_dependencies();
  void survey(Node* n);
  void mark_needed();
  void place_roots();
  std::vector<Node*> ready_roots();
  void execute_alone();
  // Runs one node and notifies the watchers. The results go to the nodes' slots or to `parallel`.
  void step(Node* n, ParallelRun* parallel);
  void watched_step(Node* n, ParallelRun* parallel);
  void run_node(Node* n, ParallelRun* parallel);
  void call_backward(Node* n, BackwardArgs& args);
  void pass_on(Node* n, size_t index, const Edge& edge, Tensor g, ParallelRun* parallel);
  void add(Tensor& slot, Tensor g);
  void push(Node* n);
  Node* pop();
  void capture(Node* n, std::span<Tensor> grads);
  void set_needs(Node* n, BackwardArgs& args, std::vector<bool>& more);
  void abandon() noexcept;

  BackwardRequest& request_;
  const uint64_t id_;
  Run* outer_;
  Node* outer_node_;
  const uint32_t watch_;
  bool finished_ = false;
  bool may_share_ = false;  // several threads are allowed
  Shape shape_;
  std::unordered_map<Node*, RunState> side_;  // state of nodes that another run has claimed
  std::vector<Node*> heap_;
  std::vector<Tensor> captured_;
  std::unordered_multimap<Node*, size_t> capture_at_;
  std::mutex callbacks_mutex_;
  std::vector<std::function<void()>> callbacks_;
  std::atomic<bool> own_cancelled_{false};
  std::atomic<bool>* cancelled_;
};

// Read for every node: the initial-exec model avoids the function call that thread-local variables
// of a shared library need otherwise.
extern constinit thread_local Run* current_run __attribute__((tls_model("initial-exec")));
extern constinit thread_local Node* current_node __attribute__((tls_model("initial-exec")));
// Gradients with at least this many elements make a node worth running on another thread.
inline constexpr int64_t kHeavyNode = 8192;

inline int64_t elements(const OutputMeta& m) noexcept { return product(m.sizes); }
void fail_if_cancelled(Run& run);
// Delivers gradient `index` of `from`; the target adds its gradients in the order in which a single
// thread would (parallel.cpp).
void deliver(ParallelRun& parallel, Node* from, size_t index, const Edge& edge, Tensor g);

// Executes a run whose nodes have their run state, on several threads (parallel.cpp).
void execute_shared(Run& run, int threads);
// Runs a node's backward on its device, and on gradients that may be batched (staged.cpp).
COGRAD_API void staged_backward(Node& n, BackwardArgs& args);
// Runs a node's backward on gradients that may be batched.
inline void call_backward(Node& n, BackwardArgs& args) {
  if (stages_open()) [[unlikely]]
    return staged_backward(n, args);
  n.backward(args);
}
// Raises torch's error if a gradient that a node returned is not finite, with the value, its index
// and, if `explained`, the reason, which depends on what the node saved (finite.cpp).
void check_finite(Node* n, const BackwardArgs& args, uint32_t watch, std::span<const Tensor> grads,
                  bool explained);
// Executes `request` on a new thread on behalf of this one (nested.cpp). If no thread could start,
// `started` stays false.
std::vector<Tensor> run_on_new_thread(BackwardRequest& request, bool* started);

}  // namespace cograd
