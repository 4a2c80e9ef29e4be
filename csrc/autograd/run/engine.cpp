// SPDX-License-Identifier: BSD-3-Clause
// One backward run: executes ready nodes newest first and adds gradients in a fixed order.
#include "autograd/run/engine.h"

#include <algorithm>
#include <mutex>

#include "autograd/run/run.h"

namespace cograd {

EngineHooks engine_hooks;
constinit thread_local Run* current_run __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local Node* current_node __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local std::span<const Tensor> current_gradients
    __attribute__((tls_model("initial-exec")));

namespace {

// Number of backward runs on this thread's stack.
constinit thread_local int depth __attribute__((tls_model("initial-exec"))) = 0;
// Number of nodes run on this thread, over all runs: nested runs may be too short to count alone.
constinit thread_local uint64_t nodes_run __attribute__((tls_model("initial-exec"))) = 0;
constexpr uint64_t kTickEvery = 64;  // light nodes between two checks for signals

}  // namespace

void Run::push(Node* n) {
  heap_.push_back(n);
  std::push_heap(heap_.begin(), heap_.end(), Newest{});
}
Node* Run::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), Newest{});
  Node* n = heap_.back();
  heap_.pop_back();
  return n;
}

// Moves the first gradient in. Adds a later one, in place if nothing else refers to the buffer.
void Run::add(Tensor& slot, Tensor g) {
  if (!slot.defined()) {
    slot = std::move(g);
    return;
  }
  const bool mine = !request_.create_graph && slot->refs.load(std::memory_order_acquire) == 1 &&
                    slot->storage->unique() && slot.is_contiguous() && !requires_grad(slot) &&
                    slot->storage->kind != 2 &&
                    !(transforms_open() && (transformed(slot) || transformed(g)));
  if (mine)
    autograd_ops.add_(slot, g);
  else
    slot = autograd_ops.add(slot, g);
}

namespace {

// execute_alone() inlines whatever it calls, so what few nodes need says noinline.
[[gnu::noinline]] void sum_gradient(Tensor& g, const OutputMeta& meta, const Node* from,
                                    size_t index) {
  Dims joint;
  const bool reducible = broadcast_shapes(g.sizes(), meta.sizes, joint) && same(joint, g.sizes());
  COGRAD_CHECK(reducible, "Function ", from->name(), " returned an invalid gradient at index ",
               index, " - got ", to_string(g.sizes()), " but expected shape compatible with ",
               to_string(meta.sizes));
  g = autograd_ops.sum_to(g, meta.sizes);
}
[[gnu::noinline]] void cast_gradient(Tensor& g, DType t) { g = autograd_ops.cast(g, t); }

}  // namespace

void Run::pass_on(Node* n, size_t index, const Edge& edge, Tensor g, ParallelRun* parallel) {
  RunState& b = run_state(edge.node);
  if (g.defined()) {
    if (b.needed || b.captured)
      fit_gradient(g, edge.node->output(edge.input_nr), n, index);
    else
      g.reset();
  }
  if (parallel != nullptr) return deliver(*parallel, n, index, edge, std::move(g));
  if (g.defined()) add(b.slot(edge.input_nr, edge.node->num_outputs()), std::move(g));
  if (--b.dependencies == 0) push(edge.node);
}

[[gnu::noinline]] void Run::capture(Node* n, std::span<Tensor> grads) {
  auto [first, last] = capture_at_.equal_range(n);
  for (auto it = first; it != last; ++it)
    if (!request_.accumulate) captured_[it->second] = grads[request_.inputs[it->second].input_nr];
}

void Run::set_needs(Node* n, BackwardArgs& args, std::vector<bool>& more) {
  const auto edges = n->edges();
  uint64_t mask = 0;
  for (size_t i = 0; i < edges.size(); ++i) {
    bool need = edges[i].node != nullptr;
    if (need && !request_.inputs.empty()) {
      const RunState& b = run_state(edges[i].node);
      need = b.needed || b.captured;
    }
    if (i < 64)
      mask |= uint64_t{need} << i;
    else
      more.push_back(need);
  }
  args.needs_mask = mask;
  args.needs_more = more.empty() ? nullptr : &more;
}

namespace {

[[gnu::noinline]] void call_tensor_hooks(const Run& run, Node& n, std::span<Tensor> grads) {
  for (const HookEntry& h : hooks_of(n, &NodeExtra::tensor_hooks)) {
    if (!run.serves(h.scope)) continue;
    std::vector<Tensor> one{grads[h.output_nr]};
    HookCall call{one};
    h.hook->call(call);
    if (one[0].defined()) grads[h.output_nr] = std::move(one[0]);
  }
}

// Hooks and user backwards may have replaced a gradient's data: shape and dtype are checked again.
[[gnu::noinline, gnu::cold]] void fail_changed(const Node& n, size_t i, const Tensor& g) {
  detail::fail(ErrorKind::Runtime, "the gradient of output ", i, " of ", n.name(),
               " has become a tensor of shape ", to_string(g.sizes()), " and dtype ",
               dtype_name(g.dtype()), " where ", to_string(n.output(i).sizes), " and ",
               dtype_name(n.output(i).dtype),
               " are expected: a hook, or a backward that kept it, has changed it in place "
               "(`g.data = `, resize_, ...). Return a new tensor instead.");
}
void check_gradients(const Node& n, std::span<const Tensor> grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    const OutputMeta& meta = n.output(i);
    if (!same(grads[i].sizes(), meta.sizes) || grads[i].dtype() != meta.dtype) [[unlikely]]
      fail_changed(n, i, grads[i]);
  }
}

[[gnu::noinline]] void call_node_hooks(const Run& run, Node& n, HookList list,
                                       std::span<Tensor> values, const std::vector<Tensor>* also) {
  std::vector<HookEntry> hooks = hooks_of(n, list);
  std::erase_if(hooks, [&](const HookEntry& h) { return !run.serves(h.scope); });
  if (hooks.empty()) return;
  std::vector<Tensor> v(values.begin(), values.end());
  for (const HookEntry& h : hooks) {
    HookCall call{v, also};
    h.hook->call(call);
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::move(v[i]);
}

// Returns the .grad slot of `r`; null if the tensor is gone, which removes itself from the list
// first. The node's lock must be held during the call and while the slot is used.
Tensor* slot_of(const NodeExtra& extra, const NodeExtra::Retained& r) {
  for (const auto& there : extra.retained)
    if (there.tensor == r.tensor && there.output_nr == r.output_nr) return &meta_of(r.tensor).grad;
  return nullptr;
}

// Adds gradients to .grad of tensors that retain it. Computes sums without the lock, and again if
// another run changed .grad meanwhile. Stores copies, as gradient buffers are added to in place.
[[gnu::noinline]] void store_retained(const Run& run, Node& n, const NodeExtra& extra,
                                      std::span<Tensor> grads) {
  std::vector<NodeExtra::Retained> list;
  {
    const std::lock_guard lock(n);
    list = extra.retained;
  }
  for (const auto& r : list) {
    const Tensor& g = grads[r.output_nr];
    if (!g.defined() || !run.serves(r.scope)) continue;
    Tensor before, sum;
    for (bool stored = false; !stored;) {
      before.reset();
      {
        const std::lock_guard lock(n);
        const Tensor* slot = slot_of(extra, r);
        if (slot == nullptr) break;
        before = *slot;
      }
      sum = before.defined() ? autograd_ops.add(before, g) : autograd_ops.clone(g);
      const std::lock_guard lock(n);
      Tensor* slot = slot_of(extra, r);
      stored = slot == nullptr || slot->is(before);
      if (slot != nullptr && stored) slot->swap(sum);
    }
  }
}

}  // namespace

void Run::call_backward(Node* n, BackwardArgs& args) {
  struct Restore {
    Node* before = current_node;
    std::span<const Tensor> gradients = current_gradients;
    ~Restore() {
      current_node = before;
      current_gradients = gradients;
    }
  } restore;
  current_node = n;
  current_gradients = args.grads;
  cograd::call_backward(*n, args);
}

void Run::run_node(Node* n, ParallelRun* parallel) {
  RunState mine;
  {
    RunState& b = run_state(n);
    mine.first = std::move(b.first);
    mine.rest = std::move(b.rest);
    mine.needed = b.needed;
    mine.captured = b.captured;
  }
  const size_t outputs = n->num_outputs();
  SmallVec<Tensor, 2> grads;
  grads.push_back(std::move(mine.first));
  for (size_t i = 1; i < outputs; ++i)
    grads.push_back(mine.rest != nullptr ? std::move((*mine.rest)[i - 1]) : Tensor());
  std::span<Tensor> grad_span(grads.data(), grads.size());

  NodeExtra* extra = n->extra_or_null();
  if (extra != nullptr && (mine.needed || mine.captured)) call_tensor_hooks(*this, *n, grad_span);
  if (mine.needed || mine.captured) check_gradients(*n, grad_span);
  if (mine.captured) capture(n, grad_span);
  if (extra != nullptr) store_retained(*this, *n, *extra, grad_span);
  const auto edges = n->edges();
  if (!mine.needed) {
    for (const Edge& e : edges)
      if (e.node != nullptr)
        pass_on(n, static_cast<size_t>(&e - edges.data()), e, Tensor(), parallel);
    return;
  }
  if (extra != nullptr && has_hooks(*n, &NodeExtra::pre_hooks)) {
    call_node_hooks(*this, *n, &NodeExtra::pre_hooks, grad_span, nullptr);
    check_gradients(*n, grad_span);
  }
  std::vector<Tensor> kept;  // the incoming gradients, for post hooks
  if ((extra != nullptr && has_hooks(*n, &NodeExtra::post_hooks)) || (watch_ & kWatchValues) != 0)
    kept.assign(grads.begin(), grads.end());

  SmallVec<Tensor, 2> results(edges.size());
  std::vector<bool> more;
  BackwardArgs args;
  args.grads = grad_span;
  args.out = {results.data(), results.size()};
  args.create_graph = request_.create_graph;
  args.keep_graph = request_.keep_graph;
  set_needs(n, args, more);
  call_backward(n, args);
  args.unpacked.reset();
  grads.clear();
  // Post hooks may replace what is not finite, and may remove themselves.
  const bool hooked = n->extra_or_null() != nullptr && has_hooks(*n, &NodeExtra::post_hooks);
  const bool checked = (watch_ & kWatchValues) != 0;
  if (checked && !hooked) check_finite(n, args, watch_, kept, /*explained=*/true);
  if (!request_.keep_graph) n->release_saved();
  if (hooked) {
    call_node_hooks(*this, *n, &NodeExtra::post_hooks, args.out, &kept);
    if (checked) check_finite(n, args, watch_, kept, /*explained=*/false);
  }
  kept.clear();
  for (size_t i = 0; i < edges.size(); ++i)
    if (edges[i].node != nullptr) pass_on(n, i, edges[i], std::move(results[i]), parallel);
}

void Run::step(Node* n, ParallelRun* parallel) {
  if (watch_ == 0) [[likely]]
    return run_node(n, parallel);
  watched_step(n, parallel);
}

[[gnu::noinline]] void Run::watched_step(Node* n, ParallelRun* parallel) {
  const int64_t begin = (watch_ & kWatchProfile) != 0 ? now_ns() : 0;
  try {
    run_node(n, parallel);
  } catch (...) {
    if ((watch_ & kWatchNodes) == 0 || watch_handlers.node_failed == nullptr) throw;
    std::exception_ptr error = std::current_exception();
    watch_handlers.node_failed(n, error);
    std::rethrow_exception(error);
  }
  if ((watch_ & kWatchProfile) == 0) return;
  const int64_t end = now_ns();
  n->extra().profiled_ns = end - begin;
  add_profile_event({ProfileEvent::Kind::Node, n->name(), n->sequence, begin, end});
}

void Run::place_roots() {
  for (size_t i = 0; i < request_.roots.size(); ++i) {
    const Edge& root = request_.roots[i];
    RunState& b = run_state(root.node);
    Tensor g = std::move(request_.grads[i]);
    // Take an alias: the caller's tensor may get other data (`g.data = y`) during the run.
    if (!request_.create_graph && g.defined() && !transforms_open()) g = Tensor::steal(g->alias());
    add(b.slot(root.input_nr, root.node->num_outputs()), std::move(g));
  }
}

// Returns the roots that no other root reaches; the others become ready during the run.
std::vector<Node*> Run::ready_roots() {
  std::vector<Node*> ready;
  for (const Edge& root : request_.roots)
    if (run_state(root.node).dependencies == 0 &&
        std::find(ready.begin(), ready.end(), root.node) == ready.end())
      ready.push_back(root.node);
  return ready;
}

// Runs all nodes on this thread. Checks for signals every few nodes, and after each heavy node.
[[gnu::flatten]] void Run::execute_alone() {
  for (const Edge& root : request_.roots)
    if (run_state(root.node).dependencies == 0 &&
        std::find(heap_.begin(), heap_.end(), root.node) == heap_.end())
      push(root.node);
  while (!heap_.empty()) {
    Node* n = pop();
    const Tensor& g = run_state(n).first;
    const bool heavy = g.defined() && g.numel() >= kHeavyNode;
    step(n, nullptr);
    if ((heavy || ++nodes_run % kTickEvery == 0)) {
      if (engine_hooks.tick != nullptr) engine_hooks.tick();
      fail_if_cancelled(*this);
    }
  }
}

std::vector<Tensor> Run::execute() {
  GradGuard grad(request_.create_graph);
  if (outer_ != nullptr) fail_if_cancelled(*this);
  count_dependencies();
  if (!request_.inputs.empty()) mark_needed();
  place_roots();
  if (may_share_ && !reading_graphs_here() && shape_.heavy >= 2 &&
      (shape_.branches || request_.roots.size() > 1))
    execute_shared(*this, num_backward_threads());
  else
    execute_alone();
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    const std::function<void()> f = callbacks_[i];  // f may queue more
    f();
  }
  finished_ = true;
  return std::move(captured_);
}

void Run::queue(std::function<void()> f) {
  const std::lock_guard lock(callbacks_mutex_);
  callbacks_.push_back(std::move(f));
}

void fail_if_cancelled(Run& run) {
  if (run.cancelled().load(std::memory_order_relaxed))
    detail::fail(ErrorKind::Runtime, "backward() was interrupted");
}

std::vector<Tensor> run_backward(BackwardRequest request) {
  struct Hold {  // keeps the graph alive during the run, even if hooks or other threads drop it
    std::vector<NodeRef> nodes;
  } hold;
  for (const Edge& e : request.roots) hold.nodes.push_back(NodeRef::borrow(e.node));
  for (const Edge& e : request.inputs) hold.nodes.push_back(NodeRef::borrow(e.node));
  if (current_run != nullptr) current_run->append_function_ids(request.functions);
  if (depth >= kReentrantDepth) {
    bool started = false;
    std::vector<Tensor> out = run_on_new_thread(request, &started);
    if (started) return out;
  }
  struct Level {
    Level() { ++depth; }
    ~Level() { --depth; }
  } level;
  Run run(request);
  return run.execute();
}

Node* running_node() noexcept { return current_node; }
std::span<const Tensor> running_gradients() noexcept { return current_gradients; }

int64_t running_id() noexcept {
  return current_run == nullptr ? -1 : static_cast<int64_t>(current_run->id());
}

bool will_run(Node* node) {
  COGRAD_CHECK(current_run != nullptr,
               "_will_engine_execute_node: only works while a backward is running");
  return current_run->will_run(node);
}

bool runs_to_every_leaf() noexcept {
  return current_run == nullptr || current_run->to_every_leaf();
}

bool run_serves(uint32_t function) noexcept {
  return current_run == nullptr || current_run->serves(function);
}

bool queue_callback(std::function<void()> f) {
  if (current_run == nullptr) return false;
  current_run->queue(std::move(f));
  return true;
}

void fit_gradient(Tensor& g, const OutputMeta& meta, const Node* from, size_t index) {
  if (!same(g.sizes(), meta.sizes)) sum_gradient(g, meta, from, index);
  if (g.dtype() != meta.dtype) cast_gradient(g, meta.dtype);
}

}  // namespace cograd
