// SPDX-License-Identifier: BSD-3-Clause
// Nodes: edges, hooks, and the loop that frees chains of nodes without recursion.
#include "autograd/graph/node.h"

#include <pthread.h>

#include <cstdlib>
#include <mutex>
#include <optional>

#include "autograd/graph/copy_slices.h"
#include "autograd/graph/transform_hooks.h"
#include "autograd/run/engine.h"

namespace cograd {

constinit thread_local ThreadState thread_state;
constinit std::atomic<uint32_t> open_stages{0};
void (*release_python_object)(void*) noexcept = nullptr;

void open_device_stage() noexcept { open_stages.fetch_or(kDeviceStage, std::memory_order_relaxed); }

// Only this thread writes its count; live_nodes() on another thread may read it.
static void count_nodes(int64_t n) noexcept {
  const std::atomic_ref count(thread_state.live_nodes);
  count.store(count.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

void* Node::operator new(size_t n) {
  void* p = n <= kSmallMax ? small_alloc(n) : ::operator new(n);
  count_nodes(1);  // only if the allocation succeeded
  return p;
}
void Node::operator delete(void* p, size_t n) noexcept {
  count_nodes(-1);
  if (n <= kSmallMax)
    small_free(p, n);
  else
    ::operator delete(p);
}

Node::~Node() {
  if (extra_ != nullptr && extra_->follower.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    stop_following(*extra_);
  for (Edge& e : edges())
    if (e.node != nullptr) e.node->release();
  if (edge_capacity_ > kInlineEdges) delete[] more_edges_;
  const std::unique_ptr<NodeExtra> extra(extra_.take());
  if (extra == nullptr) return;
  if (extra->metadata != nullptr) release_python_object(extra->metadata);
  if (extra->created_at != nullptr) release_python_object(extra->created_at);
}

void Node::report_created() noexcept {
  if (Node* running = running_node()) extra().made_by = NodeRef::borrow(running);
  if (watch_handlers.node_made != nullptr) watch_handlers.node_made(this);
}

void Node::add_edge(Node* node, uint32_t input_nr) {
  if (num_edges_ == edge_capacity_) {
    NodeRef owned(node);
    auto* grown = new Edge[2 * edge_capacity_];
    owned.take();
    std::copy_n(edge_data(), num_edges_, grown);
    if (edge_capacity_ > kInlineEdges) delete[] more_edges_;
    more_edges_ = grown;
    edge_capacity_ *= 2;
  }
  ++num_edges_;
  edge_data()[num_edges_ - 1] = {node, input_nr};
}

NodeExtra& Node::extra() {
  return extra_.or_make([] { return new NodeExtra; });
}

uint64_t add_hook(Node& n, HookList list, std::shared_ptr<Hook> hook, uint32_t output_nr) {
  static std::atomic<uint64_t> next_id{1};
  const uint64_t id = next_id.fetch_add(1, std::memory_order_relaxed);
  NodeExtra& extra = n.extra();
  const uint32_t scope = transform_hooks.scope_of(n);
  const std::lock_guard lock(n);
  (extra.*list).push_back({id, output_nr, scope, std::move(hook)});
  return id;
}

bool remove_hook(Node& n, HookList list, uint64_t id) noexcept {
  NodeExtra* extra = n.extra_or_null();
  if (extra == nullptr) return false;
  std::shared_ptr<Hook> dropped;  // destroyed after the lock is released, as that may run code
  const std::lock_guard lock(n);
  std::vector<HookEntry>& hooks = extra->*list;
  for (size_t i = 0; i < hooks.size(); ++i) {
    if (hooks[i].id != id) continue;
    dropped = std::move(hooks[i].hook);
    hooks.erase(hooks.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

std::vector<HookEntry> hooks_of(Node& n, HookList list) {
  NodeExtra* extra = n.extra_or_null();
  if (extra == nullptr) return {};
  const std::lock_guard lock(n);
  return extra->*list;
}

bool has_hooks(Node& n, HookList list) noexcept {
  NodeExtra* extra = n.extra_or_null();
  if (extra == nullptr) return false;
  const std::lock_guard lock(n);
  return !(extra->*list).empty();
}

namespace {
struct Doomed {
  void (*f)(void*) noexcept;
  void* p;
};
// The objects that wait for destruction on this thread. Only the array is allocated.
struct Waiting {
  Doomed* items = nullptr;
  size_t size = 0, room = 0;
};
constinit thread_local Waiting waiting __attribute__((tls_model("initial-exec")));

void free_waiting(void*) noexcept {
  std::free(waiting.items);
  waiting = {};
}

// Makes pthreads free the array at the thread's end, after the destructors of thread_local objects,
// which may free graphs (and again if another follows). A thread_local destructor is no
// alternative: registering it without memory ends the process.
void free_with_thread() noexcept {
  static const std::optional<pthread_key_t> key = [] {
    pthread_key_t made;
    return pthread_key_create(&made, free_waiting) == 0 ? std::optional(made) : std::nullopt;
  }();
  if (key) pthread_setspecific(*key, &waiting);
}

bool make_room() noexcept {
  const size_t room = waiting.room == 0 ? 16 : 2 * waiting.room;
  void* grown = std::realloc(waiting.items, room * sizeof(Doomed));
  if (grown == nullptr) return false;
  waiting.items = static_cast<Doomed*>(grown);
  waiting.room = room;
  free_with_thread();
  return true;
}
}  // namespace

void destroy_later(void (*f)(void*) noexcept, void* p) noexcept {
  ThreadState& ts = thread_state;
  if (ts.draining) {
    if (waiting.size == waiting.room && !make_room())
      f(p);  // no memory for the list: recurse, which frees memory
    else
      waiting.items[waiting.size++] = {f, p};
    return;
  }
  ts.draining = true;
  f(p);
  while (waiting.size != 0) {
    const Doomed d = waiting.items[--waiting.size];
    d.f(d.p);
  }
  ts.draining = false;
}

// Deleting a node releases its edges. Nodes that die with it wait in a list, not on the stack.
void Node::last_reference() noexcept { destroy_later(delete_node, this); }

void Node::visit(GraphVisitor& v) const {
  for (const Edge& e : edges())
    if (e.node != nullptr) v.node(e.node);
  if (extra_ == nullptr) return;
  {
    const std::lock_guard lock(const_cast<Node&>(*this));
    for (const auto* list : {&extra_->tensor_hooks, &extra_->pre_hooks, &extra_->post_hooks,
                             &extra_->accumulate_hooks})
      for (const HookEntry& h : *list) h.hook->visit(v);
  }
  if (extra_->metadata != nullptr) v.object(extra_->metadata);
  if (extra_->made_by) v.node(extra_->made_by.get());
}

void Node::clear() noexcept {
  release_saved();
  if (extra_ != nullptr) {
    std::vector<HookEntry> dropped[4];
    lock();
    dropped[0].swap(extra_->tensor_hooks);
    dropped[1].swap(extra_->pre_hooks);
    dropped[2].swap(extra_->post_hooks);
    dropped[3].swap(extra_->accumulate_hooks);
    unlock();
    if (extra_->metadata != nullptr)
      release_python_object(std::exchange(extra_->metadata, nullptr));
    const NodeRef maker = std::exchange(extra_->made_by, NodeRef());
  }
  for (Edge& e : edges())
    if (Node* n = std::exchange(e.node, nullptr)) n->release();
}

}  // namespace cograd
