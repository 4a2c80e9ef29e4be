// SPDX-License-Identifier: BSD-3-Clause
// BackwardJob: collects and checks roots, gradients and inputs of a backward, for any language.
#pragma once
#include <string>

#include "autograd/run/engine.h"

namespace cograd {

// A list of edges that owns a reference on each node.
class OwnedEdges {
 public:
  // Adds the edge that the gradient of `t` flows to. Returns false if there is none, because `t` is
  // a view made without recording.
  bool add(const Tensor& t) {
    const Edge e = gradient_edge(t.impl());
    if (e.node == nullptr) return false;
    NodeRef node(e.node);  // owned here in case push_back throws
    keep_.push_back(std::move(node));
    edges_.push_back(e);
    return true;
  }
  void add(const NodeRef& node, uint32_t nr) {
    keep_.push_back(node);
    edges_.push_back({node.get(), nr});
  }
  const std::vector<Edge>& list() const noexcept { return edges_; }
  bool empty() const noexcept { return edges_.empty(); }

 private:
  std::vector<NodeRef> keep_;
  std::vector<Edge> edges_;
};

// A backward that is being prepared.
class COGRAD_API BackwardJob {
 public:
  // `who` is the function that error messages name.
  explicit BackwardJob(const char* who = nullptr)
      : who_(who == nullptr ? std::string() : detail::concat(who, "(): ")) {}
  // If `grad` is undefined, the root must have one element and its gradient is 1. `index` is the
  // root's position, for messages.
  void add_root(const Tensor& t, const Tensor& grad, size_t index);
  void add_root(const NodeRef& node, uint32_t nr, const Tensor& grad, size_t index);
  // With `accumulate` the gradient goes to .grad, also if `t` is not a leaf.
  void add_input(const Tensor& t, bool accumulate);
  void add_input(const NodeRef& node, uint32_t nr);
  bool has_inputs() const noexcept { return !inputs_.empty(); }
  std::vector<Tensor> run();

  BackwardRequest request;  // the caller sets its flags

 private:
  Tensor root_gradient(IntList sizes, DType dtype, const Tensor& grad, size_t index) const;
  std::string who_;
  OwnedEdges roots_, inputs_;
  std::vector<Tensor> handles_;  // one per input: the batched tensor, undefined for other inputs
  // True if a root is a batched tensor, and if an input is not one.
  bool batched_roots_ = false, lone_inputs_ = false;
};

// Sets t.grad = g after torch's checks; an undefined `g` clears it.
COGRAD_API void set_gradient(const Tensor& t, const Tensor& g);

}  // namespace cograd
