// SPDX-License-Identifier: BSD-3-Clause
// Backward for a base tensor after an in-place write to one of its views.
#include "autograd/graph/copy_slices.h"

#include <algorithm>
#include <mutex>

#include "autograd/run/run.h"

namespace cograd {

CopySlices::CopySlices(const Tensor& base, const Tensor& view, NodeRef fn, size_t edge)
    : fn_(std::move(fn)),
      base_sizes_(base.sizes()),
      base_strides_(base.strides()),
      view_sizes_(view.sizes()),
      view_strides_(view.strides()),
      edge_(edge),
      complex_base_(is_complex(base.dtype())),
      complex_view_(is_complex(view.dtype())),
      // Each offset is relative to its own storage: `.data =` may have given the base another one.
      offset_(view.storage_offset() - base.storage_offset()) {
  if (complex_base_ != complex_view_) {  // in units of real and imaginary parts
    offset_ = view.storage_offset() * (complex_view_ ? 2 : 1) -
              base.storage_offset() * (complex_base_ ? 2 : 1);
    if (complex_view_) {
      PartsGeometry parts(view_sizes_, view_strides_);
      view_sizes_ = std::move(parts.sizes);
      view_strides_ = std::move(parts.strides);
    }
  }
  const Edge to_base = gradient_edge(base.impl());
  NodeRef owned(to_base.node);
  for (size_t i = 0; i < std::max(fn_->edges().size(), edge + 1); ++i) {
    const Edge& e = i == edge ? to_base : fn_->edges()[i];
    if (e.node != nullptr && i != edge) e.node->retain();
    if (i == edge) owned.take();
    add_edge(e.node, e.input_nr);
  }
}

namespace {
// Guards both ends of the links between nodes and their followers.
std::mutex& links() {
  static std::mutex m;
  return m;
}
}  // namespace

void stop_following(NodeExtra& extra) noexcept {
  const std::lock_guard lock(links());
  if (CopySlices* f = extra.follower.exchange(nullptr, std::memory_order_relaxed))
    f->view_.store(nullptr, std::memory_order_relaxed);
}

CopySlices::~CopySlices() {
  if (view_.load(std::memory_order_relaxed) == nullptr) return;
  const std::lock_guard lock(links());
  if (Node* view = view_.load(std::memory_order_relaxed))
    view->extra().follower.store(nullptr, std::memory_order_relaxed);
}

void CopySlices::follow(Node* node) {
  NodeExtra& extra = node->extra();
  const std::lock_guard lock(links());
  if (extra.follower.load() != nullptr || view_.load() != nullptr) return;
  extra.follower = this;
  view_ = node;
}

void follow_view(const Tensor& view) {
  if (view->base == nullptr || is_batched(view)) return;
  if (auto* slices = dynamic_cast<CopySlices*>(grad_fn(view->base)))
    slices->follow(grad_fn(view.impl()));
}

NodeRef CopySlices::view_node() const {
  {
    const std::lock_guard lock(links());
    if (Node* view = view_.load(); view != nullptr && view->try_retain()) return NodeRef(view);
  }
  // The node is gone: make the grad_fn that a view of the base would have. Values do not matter.
  const OutputMeta& meta = output(0);
  Tensor base;
  {
    const GradGuard no_grad(false);
    const PlaceGuard here(meta.device);
    base = detach(autograd_ops.relayout(autograd_ops.zeros(meta.sizes, meta.dtype), base_strides_));
  }
  base->grad_fn = NodeRef::borrow(const_cast<CopySlices*>(this)).take();
  const GradGuard grad(true);
  const bool parts = mixed() && complex_base_;
  Tensor part = part_of(parts ? autograd_ops.parts_of_complex(base) : base);
  if (mixed() && complex_view_) part = autograd_ops.complex_from_parts(part);
  return NodeRef::borrow(grad_fn(part.impl()));
}

Tensor CopySlices::part_of(const Tensor& whole) const {
  return autograd_ops.as_strided(whole, view_sizes_, view_strides_,
                                 whole.storage_offset() + offset_);
}

namespace {
// Sets thread_state.slices to the CopySlices whose backward runs, in its scope.
class Inside {
 public:
  explicit Inside(const CopySlices* s) noexcept : outer_(std::exchange(thread_state.slices, s)) {}
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { thread_state.slices = outer_; }

 private:
  const CopySlices* outer_;
};
}  // namespace

void CopySlices::backward(BackwardArgs& args) {
  if (!fn_) detail::fail(ErrorKind::Runtime, "CopySlices: the graph has been cleared");
  const Tensor& g = args.grads[0];
  if (!g.defined()) return;
  // Convert the gradient to the base's layout, so that the view's strides apply.
  Tensor whole = autograd_ops.relayout(g, base_strides_);
  if (mixed() && complex_base_) whole = autograd_ops.parts_of_complex(whole);
  Tensor slice_grad[1] = {autograd_ops.clone(part_of(whole))};
  if (mixed() && complex_view_) slice_grad[0] = autograd_ops.complex_from_parts(slice_grad[0]);
  const Tensor as_seen = slice_grad[0];
  std::vector<Tensor> results(edges().size());
  BackwardArgs inner = args;
  inner.grads = slice_grad;
  inner.out = std::span<Tensor>(results).first(fn_->edges().size());
  {
    const Inside inside(this);
    call_backward(*fn_.get(), inner);
  }
  if (args.needs(edge_)) {
    Tensor below = results[edge_].defined() ? results[edge_]
                                            : autograd_ops.zeros(as_seen.sizes(), as_seen.dtype());
    if (!same(below.sizes(), as_seen.sizes())) below = autograd_ops.sum_to(below, as_seen.sizes());
    if (below.dtype() != as_seen.dtype()) below = autograd_ops.cast(below, as_seen.dtype());
    if (mixed() && complex_view_) below = autograd_ops.parts_of_complex(below);
    Tensor found = autograd_ops.scatter_slice(whole, below, view_sizes_, view_strides_, offset_);
    if (mixed() && complex_base_) found = autograd_ops.complex_from_parts(found);
    args.out[edge_] = std::move(found);
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (i != edge_) args.out[i] = std::move(results[i]);
}

void CopySlices::visit(GraphVisitor& v) const {
  Node::visit(v);
  if (fn_) v.node(fn_.get());
}

void CopySlices::clear() noexcept {
  fn_ = NodeRef();
  Node::clear();
}

}  // namespace cograd
