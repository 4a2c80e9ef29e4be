// SPDX-License-Identifier: BSD-3-Clause
#include "ops/declare/kinked.h"

#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "transforms/probing.h"

namespace cograd {

namespace {

struct Kinked {
  static constexpr OpSpec spec{"_kinked",
                               "input, other",
                               kInternal | kOther | kAlias,
                               "The input, with a zero derivative with respect to other.",
                               "T(3, 4), T(2)",
                               "input"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr bool kHolomorphic = false;  // nothing to conjugate
  static constexpr TangentRule kTangent = linear({0});
  struct State {
    DType dtype = DType::Float32;
    Dims sizes;
  };
  static Tensor forward(Ctx<Kinked>& ctx, const Tensor& x, const Tensor& other) {
    if (ctx.recording()) *ctx.operator->() = {other.dtype(), Dims(other.sizes())};
    return alias_strided(x, x.sizes(), x.strides(), x.bytes());
  }
  static void backward(Ctx<Kinked>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = g;
    if (ctx.needs(1)) ctx.grad(1) = zeros(ctx->sizes, ctx->dtype);
  }
  static void batch(BatchCall& c) {
    c.set_result(
        apply<Kinked>(c.physical_expanded(c.arg(0).tensor()), c.physical(c.arg(1).tensor())));
  }
};
COGRAD_OP(Kinked)

// Returns its input; the gradient is kinked.
struct KinkedInput {
  static constexpr OpSpec spec{"_kinked_input",
                               "input",
                               kInternal | kOther | kAlias,
                               "The input, whose gradient has a zero derivative.",
                               "T(3, 4)",
                               "input"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr bool kHolomorphic = false;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<KinkedInput>&, const Tensor& x) {
    return alias_strided(x, x.sizes(), x.strides(), x.bytes());
  }
  static Tensor backward(Ctx<KinkedInput>& ctx, const Tensor& g) { return kinked(ctx, g); }
};
COGRAD_OP(KinkedInput)

// Returns a tensor with an input's history and sizes, for an input that its op did not save.
Tensor stand_in(const Edge& e, const OutputMeta& meta) {
  if (e.node->is_accumulator()) return static_cast<AccumulateGrad*>(e.node)->variable();
  const Tensor zero = zeros({}, meta.dtype);
  Tensor t = alias_strided(zero, meta.sizes, Dims(meta.sizes.size(), 0), zero.bytes());
  e.node->retain();
  t->grad_fn = e.node;
  t->output_nr = e.input_nr;
  return t;
}

}  // namespace

Tensor detail::kinked_gradient(Tensor grad, const Node& node, size_t input) {
  const Edge& e = node.edges()[input];
  if (e.node == nullptr || probing_backward()) return grad;
  const OutputMeta& meta = e.node->output(e.input_nr);
  if (!meta.differentiable) return grad;  // an edge that only a transform's rule requested
  return apply<Kinked>(grad, stand_in(e, meta));
}

Tensor kinked(const Tensor& x) {
  return thread_state.grad_enabled && requires_grad(x) ? apply<KinkedInput>(x) : x;
}

}  // namespace cograd
