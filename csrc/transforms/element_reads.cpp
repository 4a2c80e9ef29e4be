// SPDX-License-Identifier: BSD-3-Clause
#include "transforms/element_reads.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "transforms/batch.h"
#include "transforms/custom_function.h"

namespace cograd {

namespace {

bool same_edge(const Edge& a, const Edge& b) noexcept {
  return a.node == b.node && a.input_nr == b.input_nr;
}
bool contains(const std::vector<Edge>& list, const Edge& e) {
  return std::any_of(list.begin(), list.end(), [&](const Edge& x) { return same_edge(x, e); });
}

std::string explained(const CustomNode& node, const char* what, const char* reader,
                      const char* of) {
  std::string name = node.function_name();
  if (name.ends_with("Backward")) name.resize(name.size() - std::strlen("Backward"));
  return detail::concat(
      what, name, ": it reads elements, by ", reader, ", of a tensor ", of,
      ", and what it computes from them is not recorded, so the result would be silently wrong. "
      "Compute it by ops on tensors, or mark backward as once differentiable "
      "(@once_differentiable; in C++ static constexpr bool once_differentiable = true). To "
      "decide by a value, compare tensors, as in `if x[0] > 0`; read what is only shown from "
      "detach()");
}

// Passes a gradient on to edge 0, and raises if one of the other edges needs what was not recorded.
class UnrecordedNode final : public Node {
 public:
  explicit UnrecordedNode(std::string message) : message_(std::move(message)) {}
  std::string name() const override { return "Error"; }
  void backward(BackwardArgs& args) override;

  // Returns `g` with a node whose edges lead to `own`, that of `g`, and to `lost`.
  static Tensor of(const Tensor& g, const Edge& own, std::span<const Edge> lost,
                   std::string message);

 private:
  std::string message_;
};

Tensor UnrecordedNode::of(const Tensor& g, const Edge& own, std::span<const Edge> lost,
                          std::string message) {
  const NodeRef made(new UnrecordedNode(std::move(message)));
  const auto lead_to = [&](const Edge& e) {
    if (e.node != nullptr) e.node->retain();
    made->add_edge(e.node, e.input_nr);
  };
  lead_to(own);
  for (const Edge& e : lost) lead_to(e);
  Tensor out = Tensor::steal(g->alias());
  copy_tangents(g, out);
  set_history(out, made.get(), 0);
  return out;
}

void UnrecordedNode::backward(BackwardArgs& args) {
  if (!args.grads[0].defined()) return;
  for (size_t i = 1; i < edges().size(); ++i)
    if (args.needs(i)) throw Error(ErrorKind::Runtime, message_);
  // The factor of this gradient depends on the elements that were read.
  const Tensor g = args.grads[0];
  if (!thread_state.grad_enabled) {
    args.out[0] = g;
    return;
  }
  const Edge own = requires_grad(g) ? gradient_edge(g.impl()) : Edge{};
  const NodeRef hold(own.node);
  args.out[0] = of(g, own, std::span(edges()).subspan(1), message_);
}

}  // namespace

ElementReads::ElementReads() noexcept
    : first_(thread_state.next_sequence), before_(std::exchange(thread_state.reads, this)) {}

ElementReads::~ElementReads() {
  thread_state.reads = before_;
  for (const Edge& e : edges_) e.node->release();
}

bool ElementReads::made_here(TensorImpl* t) const {
  if (t->base != nullptr) return t->base->numel == 1 && made_here(t->base);
  return t->grad_fn != nullptr && t->grad_fn->sequence >= first_;
}

void ElementReads::note(const Tensor& t, const char* who) {
  const bool recorded = thread_state.grad_enabled && requires_grad(t);
  const bool dual = has_tangent_here(t);
  if (!recorded && !dual) return;
  if (t.numel() == 1 && (recorded ? made_here(t.impl()) : t->base == nullptr)) return;
  if (reader_ == nullptr) reader_ = who;
  tangent_ |= dual;
  const Edge e = recorded ? gradient_edge(t.impl()) : Edge{};
  if (e.node != nullptr) edges_.push_back(e);
  if (e.node != nullptr && dual) tangent_edges_.push_back(e);
  unknown_tangent_ |= dual && e.node == nullptr;
}

// Returns the edges that leave the part of the graph that was recorded in the scope.
std::vector<Edge> ElementReads::frontier(const Edge& from) const {
  std::vector<Edge> found, todo{from};
  std::unordered_set<const Node*> seen;
  while (!todo.empty()) {
    const Edge e = todo.back();
    todo.pop_back();
    if (e.node == nullptr) continue;
    if (e.node->is_accumulator() || e.node->sequence < first_) {
      if (!contains(found, e)) found.push_back(e);
    } else if (seen.insert(e.node).second) {
      for (const Edge& next : e.node->edges()) todo.push_back(next);
    }
  }
  return found;
}

std::vector<Edge> ElementReads::lost(const Tensor& g, const std::vector<Edge>& reads) const {
  if (is_batched(g)) return lost(physical_tensor(g), reads);
  const Edge own = requires_grad(g) ? gradient_edge(g.impl()) : Edge{};
  const NodeRef hold(own.node);
  const std::vector<Edge> kept = frontier(own);
  std::vector<Edge> found;
  for (const Edge& read : reads)
    for (const Edge& e : frontier(read))
      if (!contains(kept, e) && !contains(found, e)) found.push_back(e);
  return found;
}

Tensor ElementReads::guarded(const CustomNode& node, const Tensor& g) const {
  if (is_batched(g)) return batched_like(g, guarded(node, physical_tensor(g)));
  const Edge own = requires_grad(g) ? gradient_edge(g.impl()) : Edge{};
  const NodeRef hold(own.node);
  const std::vector<Edge> lost = this->lost(g, edges_);
  if (lost.empty()) return g;
  return UnrecordedNode::of(
      g, own, lost,
      explained(node, "a derivative of the backward of ", reader_, "that requires grad"));
}

// A gradient may have its tangent from `incoming` alone, the incoming gradients that have one.
// Where no graph is recorded that would show it, the tangent counts as incomplete.
bool ElementReads::tangent_complete(const Tensor& g, std::span<const Tensor> incoming) const {
  if (!has_tangent_here(g)) return false;
  return incoming.empty() || (!unknown_tangent_ && lost(g, tangent_edges_).empty());
}

void ElementReads::guard(const CustomNode& node, std::span<const Tensor> incoming,
                         std::span<Tensor> gradients) const {
  if (reader_ == nullptr) return;
  for (Tensor& g : gradients) {
    if (!g.defined()) continue;
    COGRAD_CHECK(
        !tangent_ || tangent_complete(g, incoming),
        explained(node, "forward mode over the backward of ", reader_, "that has a tangent"));
    if (!edges_.empty()) g = guarded(node, g);
  }
}

}  // namespace cograd
