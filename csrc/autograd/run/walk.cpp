// SPDX-License-Identifier: BSD-3-Clause
// Prepares and ends a run: gives it an id among the active runs, walks the graph to fill the nodes'
// run state before it starts, and walks it again to clear the state after an error.
#include <pthread.h>

#include <algorithm>

#include "autograd/graph/saved_tensor.h"
#include "autograd/run/run.h"

namespace cograd {

namespace {

// Ids of the active runs. A run may claim a node whose `run` is not one of these ids.
struct ActiveRuns {
  std::mutex mutex;
  std::vector<uint64_t> ids;
  uint64_t last = 0;
  uint64_t start() {
    std::lock_guard lock(mutex);
    ids.push_back(++last);
    return last;
  }
  void end(uint64_t id) {
    std::lock_guard lock(mutex);
    std::erase(ids, id);
  }
  bool active(uint64_t id) {
    std::lock_guard lock(mutex);
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  }
};
ActiveRuns& active_runs() {
  static auto* runs = [] {
    auto* made = new ActiveRuns;  // leaked: threads may still run at exit
    // The mutex is held during a fork. The child keeps only the runs of the thread that forked.
    pthread_atfork([] { active_runs().mutex.lock(); }, [] { active_runs().mutex.unlock(); },
                   [] {
                     ActiveRuns& r = active_runs();
                     r.ids.clear();
                     for (Run* run = current_run; run != nullptr; run = run->outer())
                       r.ids.push_back(run->id());
                     r.mutex.unlock();
                   });
    return made;
  }();
  return *runs;
}

}  // namespace

namespace {
// True if this thread has open vmap or dual levels: its gradients may be batched or have tangents.
bool transforms_here() noexcept {
  return transforms_open() && (thread_state.vmaps > 0 || transform_hooks.level_entered());
}
}  // namespace

Run::Run(BackwardRequest& request)
    : request_(request),
      id_(active_runs().start()),
      outer_(std::exchange(current_run, this)),
      outer_node_(std::exchange(current_node, nullptr)),
      watch_(watch_modes.load(std::memory_order_relaxed)),
      cancelled_(outer_ != nullptr ? &outer_->cancelled() : &own_cancelled_) {
  may_share_ = num_backward_threads() > 1 && multithreading() && outer_ == nullptr &&
               !request.create_graph && !transforms_here() &&
               (watch_ & ~uint32_t{kWatchProfile}) == 0;
}

Run::~Run() {
  if (!finished_) abandon();
  current_run = outer_;
  current_node = outer_node_;
  active_runs().end(id_);
}

// Claims a node's run state for this run; returns true on the first visit of the node in this run.
bool Run::claim(Node* n) {
  uint64_t seen = n->run.load(std::memory_order_acquire);
  if (seen == id_) return false;
  if (!side_.empty() && side_.contains(n)) return false;  // even if the other run has ended
  if ((seen == 0 || !active_runs().active(seen)) &&
      n->run.compare_exchange_strong(seen, id_, std::memory_order_acq_rel)) {
    n->run_state.reset();
    return true;
  }
  return side_.try_emplace(n).second;
}

void Run::count_dependencies() {
  std::vector<Node*> stack;
  for (const Edge& root : request_.roots)
    if (claim(root.node)) stack.push_back(root.node);
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    if (may_share_) survey(n);
    for (const Edge& e : n->edges()) {
      if (e.node == nullptr) continue;
      if (claim(e.node)) stack.push_back(e.node);
      ++run_state(e.node).dependencies;
    }
  }
}

namespace {
bool has_callbacks(Node& n) {
  for (const HookList list : {&NodeExtra::tensor_hooks, &NodeExtra::pre_hooks,
                              &NodeExtra::post_hooks, &NodeExtra::accumulate_hooks})
    if (has_hooks(n, list)) return true;
  for (size_t i = 0; i < n.num_saved(); ++i)
    if (n.saved_slot(i)->packed()) return true;
  return false;
}
}  // namespace

// Checks whether several threads are worthwhile: the graph needs heavy nodes, and a place where it
// is wider than a chain.
void Run::survey(Node* n) {
  // Python code in a graph (Functions, hooks, checkpoints) may rely on one thread and on the order
  // of nodes. It would hold the interpreter lock anyway.
  if (n->is_python() || has_callbacks(*n)) {
    may_share_ = false;
    return;
  }
  if (n->sequence == ~uint64_t{0}) return;  // a leaf
  shape_.heavy += elements(n->output(0)) >= kHeavyNode;
  const auto edges = n->edges();
  if (shape_.branches || edges.size() < 2) return;
  int inner = 0;
  for (const Edge& e : edges) inner += e.node != nullptr && e.node->sequence != ~uint64_t{0};
  shape_.branches = inner > 1;
}

// Walks the graph in post-order: a node is needed if a node below it is an input, or, when
// accumulating, if it is an input itself.
void Run::mark_needed() {
  for (size_t i = 0; i < request_.inputs.size(); ++i)
    capture_at_.emplace(request_.inputs[i].node, i);
  captured_.resize(request_.inputs.size());
  using Walk = RunState::Walk;
  struct Frame {
    Node* node;
    size_t next_edge;
    bool reaches;
  };
  std::vector<Frame> stack;
  for (const Edge& root : request_.roots) {
    if (run_state(root.node).walk == Walk::Unseen) stack.push_back({root.node, 0, false});
    while (!stack.empty()) {
      Frame& f = stack.back();
      const auto edges = f.node->edges();
      Node* below = nullptr;  // not walked yet
      for (; f.next_edge < edges.size() && below == nullptr; ++f.next_edge) {
        Node* next = edges[f.next_edge].node;
        if (next == nullptr) continue;
        const Walk w = run_state(next).walk;
        if (w == Walk::Unseen) below = next;
        f.reaches |= w == Walk::Reaches;
      }
      if (below != nullptr) {
        --f.next_edge;  // visited again once the result for `below` is known
        stack.push_back({below, 0, false});
        continue;
      }
      RunState& b = run_state(f.node);
      b.captured = capture_at_.contains(f.node);
      b.needed = f.reaches || (request_.accumulate && b.captured);
      b.walk = f.reaches || b.captured ? Walk::Reaches : Walk::Misses;
      stack.pop_back();
    }
  }
}

// After an error: drops gradients that are still in the nodes. There may be no memory for a stack,
// so the nodes to visit are chained through their run state.
void Run::abandon() noexcept {
  using Chained = std::vector<Tensor>;  // stands for Node: the pointer is only stored, not followed
  Node* chain = nullptr;
  const auto visit = [&](Node* n) {
    if (n == nullptr || n->run.load(std::memory_order_relaxed) != id_) return;
    if (n->run_state.walk == RunState::Walk::Open) return;  // already in the chain
    n->run_state.reset();
    n->run_state.walk = RunState::Walk::Open;
    n->run_state.rest.reset(reinterpret_cast<Chained*>(chain));
    chain = n;
  };
  for (const Edge& root : request_.roots) visit(root.node);
  while (chain != nullptr) {
    Node* n = chain;
    chain = reinterpret_cast<Node*>(n->run_state.rest.release());
    n->run_state.walk = RunState::Walk::Unseen;
    for (const Edge& e : n->edges()) visit(e.node);
    n->run.store(0, std::memory_order_release);
  }
}

}  // namespace cograd
