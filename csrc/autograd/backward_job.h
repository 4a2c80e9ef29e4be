// SPDX-License-Identifier: BSD-3-Clause
// What callers in any language hand to the executor: roots with their gradients, inputs, .grad.
#pragma once
#include <string>

#include "autograd/engine.h"

namespace cograd {

// Edges with a reference on their nodes.
class OwnedEdges {
 public:
  // Where t's gradient goes; false if it goes nowhere: t is a view made without recording.
  bool add(const Tensor& t) {
    const Edge e = gradient_edge(t.impl());
    if (e.node == nullptr) return false;
    NodeRef node(e.node);  // the list may find no memory
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

// A backward being put together.
class COGRAD_API BackwardJob {
 public:
  // `who`: the function that its messages name.
  explicit BackwardJob(const char* who = nullptr)
      : who_(who == nullptr ? std::string() : detail::concat(who, "(): ")) {}
  // `grad` undefined: 1, if the root has one element. `index`: the root's number, for messages.
  void add_root(const Tensor& t, const Tensor& grad, size_t index);
  void add_root(const NodeRef& node, uint32_t nr, const Tensor& grad, size_t index);
  // `accumulate`: its gradient is to be found in .grad, also where it is no leaf.
  void add_input(const Tensor& t, bool accumulate);
  void add_input(const NodeRef& node, uint32_t nr);
  bool has_inputs() const noexcept { return !inputs_.empty(); }
  std::vector<Tensor> run();

  BackwardRequest request;  // its flags are the caller's to set

 private:
  Tensor root_gradient(IntList sizes, DType dtype, const Tensor& grad, size_t index) const;
  std::string who_;
  OwnedEdges roots_, inputs_;
  std::vector<Tensor> handles_;  // inputs that are some, undefined for others
  bool batched_roots_ = false, lone_inputs_ = false;
};

// t.grad = g, after torch's checks; undefined: none.
COGRAD_API void set_gradient(const Tensor& t, const Tensor& g);

}  // namespace cograd
