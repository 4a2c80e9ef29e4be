// SPDX-License-Identifier: BSD-3-Clause
// CopySlices: the grad_fn of a base tensor after an in-place write to one of its views.
#pragma once
#include "autograd/graph/variable.h"

namespace cograd {

// Passes the view's region of the gradient through `fn` (the node of the write) and the rest to the
// base's former grad_fn. The edges are those of `fn`, with the base in place of the view.
class CopySlices final : public Node {
 public:
  ~CopySlices() override;
  // `edge` is the index of the edge of `fn` that leads to the view.
  CopySlices(const Tensor& base, const Tensor& view, NodeRef fn, size_t edge);
  std::string name() const override { return "CopySlices"; }
  void backward(BackwardArgs& args) override;
  void release_saved() noexcept override {
    if (fn_) fn_->release_saved();
  }
  size_t num_saved() const noexcept override { return fn_ ? fn_->num_saved() : 0; }
  SavedTensor* saved_slot(size_t i) noexcept override { return fn_->saved_slot(i); }
  Node* saved_owner() noexcept override { return fn_ ? fn_->saved_owner() : this; }
  OpText op_text() const noexcept override { return fn_ ? fn_->op_text() : OpText{}; }
  bool runs(const Node* fn) const noexcept { return fn_.get() == fn; }
  // Records `node`, the current grad_fn of the view that was written. The reference is weak because
  // `node` has an edge to this node.
  void follow(Node* node);
  // Returns that node, or an equivalent one if it is gone: the grad_fn of the output saved by `fn`.
  NodeRef view_node() const;
  void visit(GraphVisitor& v) const override;
  void clear() noexcept override;

 private:
  friend void stop_following(NodeExtra& extra) noexcept;
  // Returns the written region of `whole`, laid out like the base or its real and imaginary parts.
  Tensor part_of(const Tensor& whole) const;
  bool mixed() const noexcept { return complex_base_ != complex_view_; }

  NodeRef fn_;
  std::atomic<Node*> view_{nullptr};
  Dims base_sizes_, base_strides_, view_sizes_, view_strides_;
  size_t edge_;
  bool complex_base_, complex_view_;
  // Offset of the view from the base's first element; in real and imaginary parts if only one of
  // base and view is complex, else in elements.
  int64_t offset_;
};

// Called after an in-place write to `view` by a node that saved its output: makes that saved output
// track the view.
void follow_view(const Tensor& view);
// Removes the link between a node that is being destroyed and the CopySlices that follows it.
void stop_following(NodeExtra& extra) noexcept;

// Returns the view of `base` with the geometry of `t`, `bytes` after the start of the base's
// storage. One of both may be complex and the other its real and imaginary parts.
Tensor region_of_base(const Tensor& base, const TensorImpl* t, int64_t bytes);

}  // namespace cograd
