// SPDX-License-Identifier: BSD-3-Clause
// Computes the JVP of an operation as the VJP of its VJP, as backward is linear in its gradient.
#include "transforms/double_vjp.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "autograd/graph/error_node.h"
#include "transforms/batch.h"
#include "transforms/custom_function.h"
#include "transforms/probing.h"

namespace cograd {

Pairing (*real_pairing)(const Tensor&, const Tensor&) = nullptr;

namespace {

// Returns the number of products in <a, b>, over all samples if one is batched.
int64_t products(const Tensor& a, const Tensor& b) {
  if (is_batched(a)) return products(physical_tensor(a), physical_like(a, b));
  if (is_batched(b)) return products(physical_like(b, a), physical_tensor(b));
  return a.numel();
}

// Checks that a backward h is linear in u: then <v, h(u)> = <u, t> for the gradient t of <v, h(u)>
// with respect to u. If it is not (it clips gradients, say), the tangent would be silently wrong.
class LinearityCheck {
 public:
  void add(const Tensor& a, const Tensor& b, double sign) {
    const Pairing p = real_pairing(a, b);
    const int64_t samples = a.numel() > 0 ? products(a, b) / a.numel() : 1;
    const auto n = static_cast<double>(samples);
    difference_ += sign * p.sum / n;  // the mean: some pairs are the same for all samples
    size_ += p.size / n;
    for (const Tensor* t : {&a, &b}) digits_ = std::min(digits_, digits(t->dtype()));
  }
  void raise_unless_linear(const CustomNode& node) const {
    if (!(std::abs(difference_) > std::exp2(-digits_ / 2.0) * size_)) return;  // also with NaNs
    detail::fail(ErrorKind::Runtime, "forward AD through ", node.function_name(),
                 ": there is no jvp, and the tangent cannot be derived from backward, which is not "
                 "linear in the gradient that it gets (it may clip or normalise it). Add\n",
                 node.jvp_to_write());
  }

 private:
  static int digits(DType t) {
    const DType part = real_dtype(t);
    return part == DType::Float64 ? 52 : part == DType::Float32 ? 23 : 7;
  }
  double difference_ = 0, size_ = 0;
  int digits_ = 52;
};

class Nowhere final : public Node {
 public:
  std::string name() const override { return "Nowhere"; }
  void backward(BackwardArgs&) override {}
};

Node* nowhere() {
  static auto* node = [] {
    auto* made = new Nowhere;  // never freed, and not part of any graph
    --thread_state.live_nodes;
    return made;
  }();
  return node;
}

// Returns cotangents of ones. Zeros would not do: a formula may take the logarithm of its gradient.
std::vector<Tensor> cotangents(Node& node, std::span<const Tensor> outputs) {
  std::vector<Tensor> u(std::max(node.num_outputs(), outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !node.output(i).differentiable) continue;
    const PlaceGuard here(node.output(i).device);
    u[i] = autograd_ops.ones(node.output(i).sizes, node.output(i).dtype);
    set_requires_grad(u[i], true);
  }
  return u;
}

thread_local bool probing = false;
struct ProbingScope {
  bool before = std::exchange(probing, true);
  ~ProbingScope() { probing = before; }
};

// Returns h(u) for the inputs that have a tangent.
std::vector<Tensor> call_backward(Node& node, std::span<const Tensor> given,
                                  std::vector<Tensor> grads) {
  std::vector<Tensor> out(node.edges().size());
  std::vector<bool> more;
  BackwardArgs args;
  args.grads = grads;
  args.out = out;
  args.create_graph = true;
  args.keep_graph = true;
  args.needs_mask = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const bool need = given[i].defined();
    if (i < 64)
      args.needs_mask |= uint64_t{need} << i;
    else
      more.push_back(need);
  }
  if (!more.empty()) args.needs_more = &more;
  const ProbingScope scope;
  const PlaceGuard here(node.output(0).device);
  node.backward(args);
  return out;
}

[[noreturn]] void fail_opaque(Node& node, size_t input) {
  const auto* custom = dynamic_cast<const CustomNode*>(&node);
  detail::fail(ErrorKind::Runtime, "forward AD through ", node.name(),
               ": there is no jvp, and the tangent cannot be derived from backward: the gradient "
               "that it returned for input ",
               input,
               " was computed without recording (on data pointers, in NumPy, under no_grad or "
               "once_differentiable). Write that backward in recorded operations",
               custom == nullptr ? "" : ", or add\n",
               custom == nullptr ? std::string() : custom->jvp_to_write());
}

// True if nodes recorded since `first` lead from `t` to one of the leaves. An ErrorNode leads
// nowhere: what is behind it was not recorded.
bool leads_to(const Tensor& t, std::span<const Tensor> leaves, uint64_t first) {
  const auto is_leaf_of = [&](const TensorImpl* p) {
    return std::any_of(leaves.begin(), leaves.end(),
                       [p](const Tensor& leaf) { return leaf.impl() == p; });
  };
  Node* root = grad_fn(t.impl());
  if (root == nullptr) return is_leaf_of(t.impl());
  std::unordered_set<Node*> seen;
  SmallVec<Node*, 8> todo;
  todo.push_back(root);
  while (!todo.empty()) {
    Node* node = todo.back();
    todo.pop_back();
    if (node->is_accumulator()) {
      if (is_leaf_of(static_cast<AccumulateGrad*>(node)->variable_impl())) return true;
      continue;
    }
    if (node->sequence < first || !seen.insert(node).second) continue;
    if (dynamic_cast<const ErrorNode*>(node) != nullptr) continue;
    for (const Edge& e : node->edges())
      if (e.node != nullptr) todo.push_back(e.node);
  }
  return false;
}

}  // namespace

bool probing_backward() noexcept { return probing; }

Edge wanted_edge() {
  Node* n = nowhere();
  n->retain();
  return {n, 0};
}

void drop_wanted_edges(Node& node) noexcept {
  for (Edge& e : node.edges())
    if (e.node == nowhere()) std::exchange(e.node, nullptr)->release();
}

std::vector<Tensor> tangents_of_node(Node& node, std::span<const Tensor> given,
                                     std::span<const Tensor> outputs, bool record) {
  const GradGuard grad(true);
  struct NoHooks {  // nodes that are recorded here are not part of the user's graph
    SavedHookScope* before = std::exchange(thread_state.saved_hooks, nullptr);
    ~NoHooks() { thread_state.saved_hooks = before; }
  } no_hooks;
  const uint64_t first = thread_state.next_sequence;
  const std::vector<Tensor> u = cotangents(node, outputs);
  std::vector<Tensor> h = call_backward(node, given, u);
  const auto* custom = dynamic_cast<const CustomNode*>(&node);
  LinearityCheck check;
  BackwardRequest request;
  std::vector<NodeRef> hold;
  for (size_t i = 0; i < h.size(); ++i) {
    if (!h[i].defined() || !given[i].defined()) continue;
    if (!same(h[i].sizes(), given[i].sizes())) h[i] = autograd_ops.sum_to(h[i], given[i].sizes());
    if (!requires_grad(h[i]) || !leads_to(h[i], u, first)) {
      if (autograd_ops.any_nonzero(h[i])) fail_opaque(node, i);
      continue;
    }
    const Edge e = gradient_edge(h[i].impl());
    NodeRef owned(e.node);
    hold.push_back(std::move(owned));
    request.roots.push_back(e);
    request.grads.push_back(
        given[i].dtype() == h[i].dtype() ? given[i] : autograd_ops.cast(given[i], h[i].dtype()));
    if (custom != nullptr) check.add(request.grads.back(), h[i], 1);
  }
  std::vector<Tensor> tangents(outputs.size());
  if (request.roots.empty()) return tangents;
  std::vector<size_t> place;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!u[i].defined()) continue;
    const Edge e = gradient_edge(u[i].impl());
    NodeRef owned(e.node);
    hold.push_back(std::move(owned));
    request.inputs.push_back(e);
    place.push_back(i);
  }
  request.create_graph = record;
  request.keep_graph = record;
  std::vector<Tensor> found = run_backward(std::move(request));
  for (size_t i = 0; i < found.size(); ++i) {
    if (custom != nullptr && found[i].defined()) check.add(u[place[i]], found[i], -1);
    tangents[place[i]] = std::move(found[i]);
  }
  if (custom != nullptr) check.raise_unless_linear(*custom);
  return tangents;
}

}  // namespace cograd
