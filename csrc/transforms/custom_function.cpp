// SPDX-License-Identifier: BSD-3-Clause
// Calls of custom functions, which connect inputs and outputs to the graph; the node's backward.
#include "transforms/custom_function.h"

#include <algorithm>

#include "autograd/graph/copy_slices.h"
#include "autograd/modes/inference.h"
#include "tensor/sparse.h"
#include "transforms/batch.h"
#include "transforms/element_reads.h"

namespace cograd {

namespace {

bool contains(std::span<TensorImpl* const> list, const TensorImpl* t) noexcept {
  return std::find(list.begin(), list.end(), t) != list.end();
}

// Returns a view of all of `t`, to return an unchanged input as a new tensor.
Tensor whole_view(const Tensor& t) { return alias_strided(t, t.sizes(), t.strides(), t.bytes()); }

void set_view_kind(const Tensor& t, uint32_t kind) noexcept {
  t->flags = (t->flags & ~uint32_t{kViewKinds}) | kind;
}

// The backwards and jvps that run on this thread, innermost first.
struct Running {
  const CustomNode* node;
  const BackwardArgs* args;  // null: its jvp
  const ReopenedVmaps* frames;
  Running* outer;
  const std::vector<Tensor>* recorded = nullptr;  // incoming gradients that require grad
};
constinit thread_local Running* t_running = nullptr;

struct RunningScope {
  Running here;
  RunningScope(const CustomNode* node, const BackwardArgs* args,
               const ReopenedVmaps* frames = nullptr) noexcept
      : here{node, args, frames, t_running} {
    t_running = &here;
  }
  ~RunningScope() { t_running = here.outer; }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;
};

const BackwardArgs* running_of(const CustomNode* node) noexcept {
  for (const Running* r = t_running; r != nullptr; r = r->outer)
    if (r->node == node) return r->args;
  return nullptr;
}

const ReopenedVmaps* frames_of(const CustomNode* node) noexcept {
  for (const Running* r = t_running; r != nullptr; r = r->outer)
    if (r->node == node) return r->frames;
  return nullptr;
}

}  // namespace

// --- the node ----------------------------------------------------------------------------------

void CustomNode::backward(BackwardArgs& args) {
  for (size_t i = 0; i < returned_ && materialize_; ++i) {
    Tensor& g = args.grads[i];
    if (!g.defined() && output(i).differentiable) g = zeros_of(output(i));
  }
  if (frames_ != nullptr) [[unlikely]]
    return backward_of_handles(args);
  const PlaceGuard host(kHost);
  const RunningScope scope(this, &args);
  call_recorded(args);
}

void CustomNode::call_recorded(BackwardArgs& args) {
  if (!thread_state.grad_enabled && !transforms_open()) return call_backward(args);
  std::vector<Tensor> with_tangents, recorded;  // call_backward moves the gradients
  for (const Tensor& g : args.grads) {
    if (!g.defined()) continue;
    if (has_tangent_here(g)) with_tangents.push_back(g);
    const Tensor& memory = is_batched(g) ? physical_tensor(g) : g;
    if (thread_state.grad_enabled && requires_grad(memory)) recorded.push_back(memory);
  }
  t_running->recorded = &recorded;
  const ElementReads reads;
  call_backward(args);
  reads.guard(*this, with_tangents, args.out);
}

// Wraps the physical gradients of the outputs as batched tensors, calls the user's backward, and
// unwraps the gradients that it returns.
void CustomNode::backward_of_handles(BackwardArgs& args) {
  const ReopenedVmaps frames(*frames_);
  std::vector<Tensor> grads, found(args.out.size());
  for (size_t i = 0; i < args.grads.size(); ++i) {
    const Tensor& g = args.grads[i];
    grads.push_back(g.defined() ? frames.wrap_gradient(g, frames_->outputs[i]) : g);
  }
  BackwardArgs inner = args;
  inner.grads = grads;
  inner.out = found;
  {
    const PlaceGuard host(kHost);
    const RunningScope scope(this, &inner, &frames);
    call_recorded(inner);
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const Edge& e = edges()[i];
    if (!found[i].defined() || e.node == nullptr) continue;
    args.out[i] =
        frames.gradient_to_memory(std::move(found[i]), frames_->inputs[i], frames_->input_sizes[i]);
  }
}

std::vector<Tensor> CustomNode::tangents(std::span<const Tensor> given) {
  std::vector<Tensor> all(given.begin(), given.end());
  for (size_t i = 0; i < all.size() && materialize_; ++i)
    if (!all[i].defined() && input_meta(i).differentiable) all[i] = zeros_of(input_meta(i));
  if (frames_ == nullptr) return call_jvp(std::move(all));
  const ReopenedVmaps frames(*frames_);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].defined()) all[i] = frames.wrap(std::move(all[i]), frames_->inputs[i]);
  std::vector<Tensor> found;
  {
    const RunningScope scope(this, nullptr, &frames);
    found = call_jvp(std::move(all));
  }
  for (size_t i = 0; i < found.size() && i < frames_->outputs.size(); ++i)
    if (found[i].defined())
      found[i] = frames.tangent_to_memory(std::move(found[i]), frames_->outputs[i]);
  return found;
}

Tensor CustomNode::saved_of_samples(Tensor t, size_t i) const {
  const ReopenedVmaps* frames = frames_of(this);
  return frames == nullptr || !t.defined() ? t : frames->wrap(std::move(t), frames_->saved[i]);
}

Tensor CustomNode::rewrapped_here(const Tensor& t) const {
  const ReopenedVmaps* frames = is_batched(t) ? frames_of(this) : nullptr;
  return frames == nullptr ? t : frames->translate(t);
}

VmapFrames& CustomNode::frames() {
  if (frames_ == nullptr) frames_ = std::make_unique<VmapFrames>();
  return *frames_;
}

bool CustomNode::running() const noexcept { return running_of(this) != nullptr; }

bool CustomNode::needs_input(size_t i) const noexcept {
  if (!needs_[i]) return false;
  const BackwardArgs* args = running_of(this);
  return args == nullptr || args->needs(i);
}

void CustomNode::set_gradient(BackwardArgs& args, size_t input, Tensor g, size_t index) const {
  if (!g.defined() || input >= edges().size()) return;
  const Edge& e = edges()[input];
  if (e.node == nullptr) return;
  const Dims& whole = e.node->output(e.input_nr).sizes;
  Dims sample, joint;
  if (frames_ != nullptr) [[unlikely]]
    sample = VmapFrames::logical(frames_->input_sizes[input], frames_->inputs[input]);
  const Dims& sizes = frames_ == nullptr ? whole : sample;
  COGRAD_CHECK(broadcast_shapes(g.sizes(), sizes, joint) && same(joint, g.sizes()), "Function ",
               name(), " returned an invalid gradient at index ", index, " - got ",
               to_string(g.sizes()), " but expected shape compatible with ", to_string(sizes),
               " for ", describe_input(input));
  args.out[input] = std::move(g);
}

Tensor CustomNode::once_differentiable(const Tensor& g) const {
  if (is_batched(g)) return batched_like(g, once_differentiable(physical_tensor(g)));
  std::vector<Edge> inputs(edges().begin(), edges().end());
  std::vector<NodeRef> held;
  for (const Running* r = t_running; r != nullptr; r = r->outer) {
    if (r->node != this || r->recorded == nullptr) continue;
    for (const Tensor& t : *r->recorded) {
      inputs.push_back(gradient_edge(t.impl()));
      held.emplace_back(inputs.back().node);
    }
    break;
  }
  return poisoned(g, inputs,
                  detail::concat(name(),
                                 ": trying to differentiate twice a function that was marked with "
                                 "@once_differentiable: it is once differentiable, as its backward "
                                 "computes without recording"));
}

void CustomNode::release_saved() noexcept {
  if (saved_.empty()) return;
  // Only the contents go: another thread may be reading a slot in a concurrent backward.
  SmallVec<SavedSlot, 2> dropped;
  for (size_t i = 0; i < saved_.size(); ++i) dropped.push_back(SavedSlot());
  lock();
  released = true;
  for (size_t i = 0; i < saved_.size(); ++i) saved_[i].tensor.swap(dropped[i].tensor);
  unlock();
}

void CustomNode::visit(GraphVisitor& v) const {
  Node::visit(v);
  for (const SavedSlot& s : saved_) s.tensor.visit(v);
}

namespace {
// Raises if a dual level around this rule needs the unknown tangent of an intermediate result.
void check_level(const CustomNode& owner, const std::string& what) {
  const LevelId level = owner.called_at();
  if (level == 0 || level >= thread_state.max_visible_level) return;
  for (const auto& open : entered_levels())
    COGRAD_CHECK(open->id() != level, owner.name(), ": ", what,
                 " is an intermediate result of forward, whose tangent is not known: forward AD "
                 "over this rule would be silently wrong. Recompute it there from saved inputs, or "
                 "return it as an extra output and save that.");
}
bool leads_on(const Node& node) noexcept {
  return std::any_of(node.edges().begin(), node.edges().end(),
                     [](const Edge& e) { return e.node != nullptr; });
}
}  // namespace

bool is_intermediate(const Tensor& t) noexcept {
  return (t->flags & kTaint) != 0 && t->grad_fn == nullptr;
}

Tensor guarded_intermediate(CustomNode& owner, const Tensor& t, const std::string& what) {
  check_level(owner, what);
  return thread_state.grad_enabled && leads_on(owner) ? poisoned_intermediate(&owner, t, what) : t;
}

Tensor SavedSlot::unpack(Node* owner, size_t index) {
  Tensor t = unpack_saved(owner, tensor);
  if (kind != Kind::Intermediate) return t;
  return guarded_intermediate(static_cast<CustomNode&>(*owner), t,
                              detail::concat("saved tensor ", index));
}

Tensor poisoned_intermediate(Node* owner, const Tensor& t, const std::string& what) {
  return poisoned(
      t, owner->edges(),
      detail::concat(owner->name(), ": ", what,
                     " is an intermediate result of forward: it depends on the inputs, but its own "
                     "derivative is not recorded, so a second derivative through it would be "
                     "silently wrong. Recompute it from saved inputs in backward, or return it as "
                     "an extra output and save that, or mark backward with once_differentiable."));
}

// --- the call ----------------------------------------------------------------------------------

void CustomCall::connect() {
  joins_ = recording_ = any_ && thread_state.grad_enabled;
  if (transforms_open() && !thread_state.inference) [[unlikely]]
    find_levels();
  if (!recording_) return;
  for (TensorImpl* t : inputs_) {
    const Edge e = t != nullptr ? gradient_edge(t) : Edge{};
    node_.add_edge(e.node, e.input_nr);
  }
  if (!levels_.empty() && !node_.has_jvp()) want_tangents();
}

void CustomCall::enter() noexcept {
  grad_before_ = std::exchange(thread_state.grad_enabled, false);
  taint_before_ = std::exchange(thread_state.taint, recording_);
  ceiling_before_ =
      std::exchange(thread_state.max_visible_level, 0);  // the node computes the tangents
  entered_ = true;
}

void CustomCall::leave() noexcept {
  if (!entered_) return;
  entered_ = false;
  thread_state.grad_enabled = grad_before_;
  thread_state.taint = taint_before_;
  thread_state.max_visible_level = ceiling_before_;
}

bool CustomCall::is_input(const TensorImpl* t) const noexcept {
  return contains({inputs_.data(), inputs_.size()}, t);
}

bool CustomCall::untouched(TensorImpl* t) const noexcept {
  if (is_batched(t)) t = physical_tensor(Tensor::borrow(t)).impl();
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i] == t) return t->current_version() == versions_[i];
  return false;
}

void CustomCall::finish_physical(std::span<Tensor> outputs, const Declared& declared) {
  Impls before;
  size_t views = 0;
  for (const Tensor& t : outputs) {
    before.push_back(t.impl());
    views += t.defined() && t->base != nullptr;
  }
  check_dirty(declared, before);
  if (joins_) check_unmarked_writes(declared);
  node_.returned_ = static_cast<uint32_t>(outputs.size());
  node_.set_num_outputs(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& t = outputs[i];
    if (!t.defined()) continue;
    COGRAD_CHECK(!is_batched(t), "vmap: ", node_.function_name(),
                 ".forward returned a batched tensor, but no argument is batched by that vmap: it "
                 "uses a tensor that is not an argument. Pass that tensor to apply().");
    if (is_sparse(t)) {
      COGRAD_CHECK_NOT_IMPLEMENTED(
          !recording_ || contains(declared.non_differentiable, t.impl()), node_.function_name(),
          ".forward returned a sparse tensor, through which a Function passes no gradients: return "
          "its values() and build the sparse tensor outside, or mark it non-differentiable");
      continue;
    }
    const bool made_here = t->base == nullptr && !is_input(t.impl());
    t = join(std::move(t), static_cast<uint32_t>(i), views, declared);
    if (made_here && makes_inference_tensors()) t->flags |= kInference;
  }
  if (recording_) keep(declared, before, outputs);
}

// Raises unless dirty inputs are among the outputs and are not leaves that require grad.
void CustomCall::check_dirty(const Declared& declared, const Impls& outputs) const {
  for (TensorImpl* p : declared.dirty) {
    COGRAD_CHECK(contains({outputs.data(), outputs.size()}, p) || !joins_,
                 "Some elements marked as dirty during the forward method were not returned as "
                 "output. The inputs that are modified inplace must all be outputs of the "
                 "Function. (",
                 node_.function_name(), ")");
    if (!joins_ || contains(declared.non_differentiable, p)) continue;
    const Tensor t = Tensor::borrow(p);
    if (p->base != nullptr) {
      check_dirty_view(t, outputs);
      continue;
    }
    COGRAD_CHECK(!requires_grad(t) || !is_leaf(t),
                 "a leaf Variable that requires grad has been used in an in-place operation. (",
                 node_.function_name(), ": forward marked it dirty)");
  }
}

void CustomCall::check_dirty_view(const Tensor& t, const Impls& outputs) const {
  check_inplace(t, node_.function_name().c_str(), true);
  COGRAD_CHECK(is_input(t.impl()), node_.function_name(),
               ": forward marked a view dirty that is not one of its tensor arguments");
  const auto tensors = std::count_if(outputs.begin(), outputs.end(),
                                     [](const TensorImpl* o) { return o != nullptr; });
  COGRAD_CHECK(tensors == 1,
               "If your Function modifies inplace an input that is a view of another Tensor, your "
               "Function cannot return more than one Tensor. This is not supported by the "
               "current autograd engine. You should either make sure the input is not a view "
               "(using .clone() for example) or make your Function only return one Tensor. (",
               node_.function_name(), ")");
}

// Raises if forward wrote an input that requires grad without declaring it.
void CustomCall::check_unmarked_writes(const Declared& declared) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    TensorImpl* p = inputs_[i];
    if (p == nullptr || p->current_version() == versions_[i] || !requires_grad(p)) continue;
    // A dirty input may share memory, and so the version, with this one.
    const bool declared_dirty =
        std::any_of(declared.dirty.begin(), declared.dirty.end(),
                    [&](TensorImpl* d) { return d->storage == p->storage; });
    COGRAD_CHECK(declared_dirty, node_.function_name(), ": forward wrote ", node_.describe_input(i),
                 " in place without declaring it: call ctx.mark_dirty on it and return it, or "
                 "write into a clone()");
  }
}

// Returns the output for an input that forward returned unchanged: a view with the node as grad_fn.
Tensor CustomCall::join_input(const Tensor& t, uint32_t nr) {
  Tensor v = whole_view(t);
  if (!joins_) return v;
  if (t->base != nullptr || requires_grad(t)) {
    link_view(t, v);
    set_view_kind(v, kViewCustomFunction);
  }
  set_history(v, &node_, nr);
  return v;
}

Tensor CustomCall::join(Tensor t, uint32_t nr, size_t views, const Declared& declared) {
  node_.set_output(nr, t);
  if (t->grad_fn == &node_) {  // returned twice: as in torch the last position gets the gradient
    t->output_nr = nr;
    return t;
  }
  const bool input = is_input(t.impl());
  const bool dirty = contains(declared.dirty, t.impl());
  // Checked first, so that non_differentiable wins over dirty.
  if (contains(declared.non_differentiable, t.impl()) || !is_differentiable(t.dtype())) {
    if (requires_grad(t)) return detach(t);
    return input && !dirty ? whole_view(t) : t;
  }
  if (dirty) {
    const auto at = std::find(inputs_.begin(), inputs_.end(), t.impl());
    if (joins_)
      rebase_history(t, &node_, nr, input ? static_cast<size_t>(at - inputs_.begin()) : 0);
    return t;
  }
  if (input) return join_input(t, nr);
  if (!joins_) {
    if (t->base != nullptr) set_view_kind(t, kViewCustomFunction);
    return t;
  }
  if (requires_grad(t) && t->base == nullptr) t = detach(t);  // not made by this forward
  const bool view = t->base != nullptr;
  set_history(t, &node_, nr);
  t->flags &= ~uint32_t{kTaint};
  if (view)
    set_view_kind(t, views > 1 || node_.num_outputs() > 1 ? kViewMultiOutput : kViewCustomFunction);
  return t;
}

void CustomCall::keep(const Declared& declared, const Impls& before, std::span<Tensor> after) {
  for (TensorImpl* p : declared.saved) {
    node_.saved_.push_back(SavedSlot());
    if (p == nullptr) continue;
    SavedSlot& slot = node_.saved_.back();
    const bool input = is_input(p);
    const auto at = std::find(before.begin(), before.end(), p);
    if (at != before.end() && (!input || contains(declared.dirty, p))) {
      const auto nr = static_cast<size_t>(at - before.begin());
      if (!is_differentiable(p->dtype) || contains(declared.non_differentiable, p)) {
        slot.kind = SavedSlot::Kind::Constant;  // no gradient flows into it, so it has no history
        slot.tensor.save(after[nr]);
        continue;
      }
      slot.kind = SavedSlot::Kind::Output;
      slot.tensor.save_output(after[nr], after[nr]->grad_fn == &node_ ? after[nr]->output_nr
                                                                      : static_cast<uint32_t>(nr));
      if (joins_ && contains(declared.dirty, p)) follow_view(after[nr]);
      continue;
    }
    slot.kind = input                                ? SavedSlot::Kind::Input
                : is_intermediate(Tensor::borrow(p)) ? SavedSlot::Kind::Intermediate
                                                     : SavedSlot::Kind::Constant;
    slot.tensor.save(Tensor::borrow(p));
  }
}

}  // namespace cograd
