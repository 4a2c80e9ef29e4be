// SPDX-License-Identifier: BSD-3-Clause
// Backward of an in-place write to a view, seen from the base.
#include "autograd/copy_slices.h"

#include <algorithm>

#include "autograd/run.h"

namespace cograd {

CopySlices::CopySlices(const Tensor& base, const Tensor& view, NodeRef fn, size_t edge)
    : fn_(std::move(fn)),
      base_sizes_(base.sizes()),
      base_strides_(base.strides()),
      view_sizes_(view.sizes()),
      view_strides_(view.strides()),
      edge_(edge),
      // Each against its own storage: `.data =` may have given the base another one.
      offset_(view.storage_offset() - base.storage_offset()) {
  const Edge to_base = gradient_edge(base.impl());
  for (size_t i = 0; i < std::max(fn_->edges().size(), edge + 1); ++i) {
    const Edge& e = i == edge ? to_base : fn_->edges()[i];
    if (e.node != nullptr && i != edge) e.node->retain();
    add_edge(e.node, e.input_nr);
  }
}

void CopySlices::backward(BackwardArgs& args) {
  if (!fn_) detail::fail(ErrorKind::Runtime, "CopySlices: the graph has been cleared");
  const Tensor& g = args.grads[0];
  if (!g.defined()) return;
  // A gradient need not have the base's layout: bring it there, so that the view's strides apply.
  Tensor whole = autograd_ops.relayout(g, base_strides_);
  Tensor slice =
      autograd_ops.as_strided(whole, view_sizes_, view_strides_, whole.storage_offset() + offset_);
  Tensor slice_grad[1] = {autograd_ops.clone(slice)};
  std::vector<Tensor> results(edges().size());
  BackwardArgs inner = args;
  inner.grads = slice_grad;
  inner.out = std::span<Tensor>(results).first(fn_->edges().size());
  call_backward(*fn_.get(), inner);
  if (args.needs(edge_)) {
    Tensor below =
        results[edge_].defined() ? results[edge_] : autograd_ops.zeros(view_sizes_, whole.dtype());
    if (!same(below.sizes(), view_sizes_)) below = autograd_ops.sum_to(below, view_sizes_);
    if (below.dtype() != whole.dtype()) below = autograd_ops.cast(below, whole.dtype());
    args.out[edge_] = autograd_ops.scatter_slice(whole, below, view_sizes_, view_strides_, offset_);
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
