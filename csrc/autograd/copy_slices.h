// SPDX-License-Identifier: BSD-3-Clause
// CopySlices: the history of a base tensor after an in-place write to one of its views.
#pragma once
#include "autograd/variable.h"

namespace cograd {

// Sends the gradient inside the view through `fn` (the write's own node) and the rest to the
// base's former history. Edges are those of `fn`, with the base in place of the view.
class CopySlices final : public Node {
 public:
  ~CopySlices() override;
  // `edge`: the one of `fn` that leads to the view.
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
  // `node` made the view that was written, as it is now. Referred to weakly: it leads here.
  void follow(Node* node);
  // That node, or one like it: the history of what `fn` saved of its result.
  NodeRef view_node() const;
  void visit(GraphVisitor& v) const override;
  void clear() noexcept override;

 private:
  friend void stop_following(NodeExtra& extra) noexcept;
  // The written part of `whole`, which is laid out as the base or as the parts of its numbers.
  Tensor part_of(const Tensor& whole) const;
  bool mixed() const noexcept { return complex_base_ != complex_view_; }

  NodeRef fn_;
  std::atomic<Node*> view_{nullptr};
  Dims base_sizes_, base_strides_, view_sizes_, view_strides_;
  size_t edge_;
  bool complex_base_, complex_view_;
  // Of the view, in elements from the base's first; of parts where only one of both is complex.
  int64_t offset_;
};

// Of a view that was just written by a node that saved its result: what it saved is this view.
void follow_view(const Tensor& view);
// Ends the link of a node that is being destroyed.
void stop_following(NodeExtra& extra) noexcept;

// The elements of `t`, a view of `base` or of what is laid out as it, `bytes` behind the first of
// the base's storage; either may be of the complex parts of the other.
Tensor region_of_base(const Tensor& base, const TensorImpl* t, int64_t bytes);

}  // namespace cograd
