// SPDX-License-Identifier: BSD-3-Clause
// Calls of custom functions behind the C interface, and their nodes' backward.
#include "api/function.h"

#include <cstring>

namespace cograd::api {

namespace {

using Impls = SmallVec<TensorImpl*, 4>;

Impls impls_of(std::span<const Tensor> list) {
  Impls out;
  for (const Tensor& t : list) out.push_back(t.impl());
  return out;
}
std::span<TensorImpl* const> span_of(const Impls& v) noexcept { return {v.data(), v.size()}; }
template <class V>
std::span<const Tensor> tensors_of(const V& v) noexcept {
  return {v.data(), v.size()};
}

// The backwards under way on this thread: several threads may run one node at a time.
struct Running {
  const UserNode* node;
  const BackwardArgs* args;
  const Running* outer;
};
thread_local const Running* t_running = nullptr;

const BackwardArgs* running_of(const UserNode* node) noexcept {
  for (const Running* r = t_running; r != nullptr; r = r->outer)
    if (r->node == node) return r->args;
  return nullptr;
}

std::string describe_input(const void*, size_t i) {
  return detail::concat("its tensor argument ", i);
}

}  // namespace

UserNode::UserNode(const cograd_function& function, void* state)
    : state_(state), destroy_(function.destroy) {
  std::memcpy(&function_, &function, std::min(function.struct_size, sizeof function_));
}

UserNode::~UserNode() {
  restore_modes();
  if (destroy_ != nullptr && state_ != nullptr) destroy_(state_);
}

NodeRef UserNode::begin(const cograd_function& function, void* state, TensorList inputs) {
  NodeRef node(new UserNode(function, state));
  static_cast<UserNode*>(node.get())->enter(inputs);
  return node;
}

void UserNode::enter(TensorList inputs) {
  bool any = false;
  for (const Tensor& t : inputs) {
    const bool need = requires_grad(t);
    any |= need;
    inputs_.push_back(t);
    input_needs_.push_back(need);
    versions_.push_back(t.defined() ? t->current_version() : 0);
  }
  recording_ = any && thread_state.grad_enabled;
  if (recording_) {
    for (const Tensor& t : inputs) {
      const Edge e = t.defined() ? gradient_edge(t.impl()) : Edge{};
      add_edge(e.node, e.input_nr);
    }
  }
  grad_before_ = std::exchange(thread_state.grad_enabled, false);
  taint_before_ = std::exchange(thread_state.taint, recording_);
  in_forward_ = true;
}

void UserNode::restore_modes() noexcept {
  if (!in_forward_) return;
  in_forward_ = false;
  thread_state.grad_enabled = grad_before_;
  thread_state.taint = taint_before_;
}

void UserNode::require_forward(const char* what) const {
  COGRAD_CHECK(in_forward_, name(), ": ", what, " can only be called in forward");
}

void UserNode::save(TensorList tensors) {
  require_forward("save_for_backward");
  if (!recording_) return;
  for (const Tensor& t : tensors) to_save_.push_back(t);
}

void UserNode::mark_dirty(TensorList tensors) {
  require_forward("mark_dirty");
  for (const Tensor& t : tensors) {
    COGRAD_CHECK_TYPE(t.defined(), name(), ": mark_dirty got no tensor (None)");
    // Written through the data pointer, it looks untouched.
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].is(t) && t->current_version() == versions_[i]) t->bump_version();
    dirty_.push_back(t);
  }
}

void UserNode::mark_non_differentiable(TensorList tensors) {
  require_forward("mark_non_differentiable");
  for (const Tensor& t : tensors) non_differentiable_.push_back(t);
}

bool UserNode::needs_input_grad(size_t i) const {
  COGRAD_CHECK_INDEX(i < input_needs_.size(), name(), ": needs_input_grad(", i,
                     "), expected less than ", input_needs_.size());
  if (!input_needs_[i]) return false;
  if (in_forward_) return recording_;
  const BackwardArgs* args = running_of(this);
  return args == nullptr || args->needs(i);
}

void UserNode::set_state(void* state, void (*destroy)(void*)) noexcept {
  if (destroy_ != nullptr && state_ != nullptr && state_ != state) destroy_(state_);
  state_ = state;
  destroy_ = destroy;
}

void UserNode::finish(std::span<Tensor> outputs) {
  restore_modes();
  join(outputs);
  inputs_.clear();
  to_save_.clear();
  dirty_.clear();
  non_differentiable_.clear();
}

void UserNode::join(std::span<Tensor> outputs) {
  Impls before;
  size_t views = 0;
  for (Tensor& t : outputs) {
    before.push_back(t.impl());
    views += t.defined() && t->base != nullptr;
  }
  const Impls inputs = impls_of(tensors_of(inputs_)), dirty = impls_of(tensors_of(dirty_)),
              fixed = impls_of(tensors_of(non_differentiable_));
  const CustomCall call{this,       span_of(inputs), span_of(dirty), span_of(fixed),
                        recording_, describe_input,  nullptr,        function_.name};
  check_dirty_returned(call, span_of(before));
  if (recording_) check_unmarked_writes(call, {versions_.data(), versions_.size()});
  set_num_outputs(outputs.size());
  Impls after;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& t = outputs[i];
    if (t.defined()) {
      const bool again = t->grad_fn == static_cast<Node*>(this);
      t = join_output(call, again ? detach(t) : t, static_cast<uint32_t>(i), views);
      if (thread_state.inference) t->flags |= kInference;
    }
    after.push_back(t.impl());
  }
  if (!recording_) return;
  saved_.resize(to_save_.size());
  for (size_t i = 0; i < saved_.size(); ++i)
    saved_[i].keep(call, to_save_[i], span_of(before), span_of(after));
}

Tensor UserNode::saved(size_t i) {
  if (in_forward_) {
    COGRAD_CHECK_INDEX(i < to_save_.size(), name(), ": saved tensor ", i,
                       " was asked for, expected less than ", to_save_.size());
    return to_save_[i];
  }
  COGRAD_CHECK_INDEX(i < saved_.size(), name(), ": saved tensor ", i,
                     " was asked for, expected less than ", saved_.size());
  return saved_[i].unpack(this, i);
}

void UserNode::backward(BackwardArgs& args) {
  COGRAD_CHECK(function_.backward != nullptr, name(), " has no backward");
  SmallVec<cograd_tensor, 4> grads, found;
  for (size_t i = 0; i < args.grads.size(); ++i) {
    Tensor& g = args.grads[i];
    const OutputMeta& meta = output(i);
    if (!g.defined() && materialize_ && meta.differentiable)
      g = autograd_ops.zeros(meta.sizes, meta.dtype);
    grads.push_back(handle(g));
  }
  for (size_t i = 0; i < args.out.size(); ++i) found.push_back(nullptr);
  const bool once =
      (function_.flags & COGRAD_FUNCTION_ONCE_DIFFERENTIABLE) != 0 && thread_state.grad_enabled;
  cograd_status s = COGRAD_OK;
  {
    const GradGuard mode(thread_state.grad_enabled && !once);
    const Running running{this, &args, t_running};
    t_running = &running;
    s = function_.backward(handle(this), state_, grads.data(), grads.size(), found.data(),
                           found.size());
    t_running = running.outer;
  }
  for (size_t i = 0; i < found.size(); ++i) args.out[i] = Tensor::steal(impl(found[i]));
  if (s != COGRAD_OK) raise(s, name());
  if (once) poison(args.out);
}

void UserNode::poison(std::span<Tensor> gradients) const {
  const std::string why = detail::concat(
      name(),
      ": trying to differentiate twice a function that was marked as once differentiable: its "
      "backward computes without recording");
  for (Tensor& g : gradients)
    if (g.defined() && is_differentiable(g.dtype())) g = poisoned(g, edges(), why);
}

void UserNode::release_saved() noexcept {
  // The slots stay: another thread may be reading one in a backward of its own.
  std::vector<SavedSlot> dropped(saved_.size());
  lock();
  released = true;
  for (size_t i = 0; i < saved_.size(); ++i) saved_[i].tensor.swap(dropped[i].tensor);
  unlock();
  if (function_.release != nullptr) function_.release(state_);
}

void UserNode::visit(GraphVisitor& v) const {
  Node::visit(v);
  for (const SavedSlot& s : saved_) s.tensor.visit(v);
}

}  // namespace cograd::api

using namespace cograd;
using namespace cograd::api;

cograd_status cograd_function_begin(const cograd_function* function, void* state,
                                    const cograd_tensor* inputs, size_t n,
                                    cograd_context* out) noexcept {
  return guarded([&] {
    NodeRef node = UserNode::begin(*function, state, list_of(inputs, n));
    *out = api::handle(static_cast<UserNode*>(node.take()));
  });
}

cograd_status cograd_function_end(cograd_context ctx, cograd_tensor* outputs, size_t n) noexcept {
  return guarded([&] {
    const NodeRef node(node_of(ctx));
    SmallVec<Tensor, 2> list;
    for (size_t i = 0; i < n; ++i)
      list.push_back(Tensor::steal(impl(std::exchange(outputs[i], nullptr))));
    node_of(ctx)->finish({list.data(), list.size()});
    for (size_t i = 0; i < n; ++i) outputs[i] = give(std::move(list[i]));
  });
}

void cograd_function_abort(cograd_context ctx) noexcept {
  const NodeRef node(node_of(ctx));
  node_of(ctx)->abort();
}

int32_t cograd_context_recording(cograd_context ctx) noexcept { return node_of(ctx)->recording(); }
cograd_status cograd_context_save(cograd_context ctx, const cograd_tensor* tensors,
                                  size_t n) noexcept {
  return guarded([&] { node_of(ctx)->save(list_of(tensors, n)); });
}
size_t cograd_context_num_saved(cograd_context ctx) noexcept { return node_of(ctx)->count_saved(); }
cograd_status cograd_context_saved(cograd_context ctx, size_t i, cograd_tensor* out) noexcept {
  return guarded([&] { *out = give(node_of(ctx)->saved(i)); });
}
cograd_status cograd_context_mark_dirty(cograd_context ctx, const cograd_tensor* tensors,
                                        size_t n) noexcept {
  return guarded([&] { node_of(ctx)->mark_dirty(list_of(tensors, n)); });
}
cograd_status cograd_context_mark_non_differentiable(cograd_context ctx,
                                                     const cograd_tensor* tensors,
                                                     size_t n) noexcept {
  return guarded([&] { node_of(ctx)->mark_non_differentiable(list_of(tensors, n)); });
}
void cograd_context_set_materialize_grads(cograd_context ctx, int32_t value) noexcept {
  node_of(ctx)->set_materialize_grads(value != 0);
}
int32_t cograd_context_needs_input_grad(cograd_context ctx, size_t i) noexcept {
  int32_t needed = 0;
  const cograd_status s = guarded([&] { needed = node_of(ctx)->needs_input_grad(i); });
  return s == COGRAD_OK ? needed : -1;
}
void cograd_context_set_state(cograd_context ctx, void* state, void (*destroy)(void*)) noexcept {
  node_of(ctx)->set_state(state, destroy);
}
void* cograd_context_state(cograd_context ctx) noexcept { return node_of(ctx)->state(); }
