// SPDX-License-Identifier: BSD-3-Clause
// ErrorNode: raises an error when a gradient flows through it.
#pragma once
#include "autograd/graph/variable.h"

namespace cograd {

class ErrorNode final : public Node {
 public:
  explicit ErrorNode(std::string message) : message_(std::move(message)) {}
  std::string name() const override { return "Error"; }
  void backward(BackwardArgs& args) override {
    if (args.grads[0].defined()) throw Error(ErrorKind::Runtime, message_);
  }

 private:
  std::string message_;
};

// Returns an ErrorNode with edges to `inputs`, so that a run to these inputs reaches it.
inline NodeRef error_node(std::string message, std::span<const Edge> inputs) {
  NodeRef node(new ErrorNode(std::move(message)));
  for (const Edge& e : inputs) {
    if (e.node == nullptr) continue;
    e.node->retain();
    node->add_edge(e.node, e.input_nr);
  }
  return node;
}

// Returns an alias of `t` whose grad_fn is a new ErrorNode.
inline Tensor poisoned(const Tensor& t, std::span<const Edge> inputs, std::string message) {
  const NodeRef node = error_node(std::move(message), inputs);
  Tensor out = Tensor::steal(t->alias());
  set_history(out, node.get(), 0);
  return out;
}

}  // namespace cograd
