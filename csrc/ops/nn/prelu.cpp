// SPDX-License-Identifier: BSD-3-Clause
// prelu: multiplies negative elements by a weight, one for all or one per channel.
#include "ops/compute/promote.h"
#include "ops/declare/autocast.h"
#include "ops/declare/kinked.h"
#include "ops/declare/ops.h"

namespace cograd {

namespace {

struct PreluWhere {
  static constexpr OpSpec spec{"_prelu_where", "condition, input, other", kInternal | kElementwise,
                               "", "none: prelu"};
  static constexpr const char* kNodeName = "PreluKernelBackward0";
  static constexpr int kSaved = 1;
  static constexpr TangentRule kTangent = self_adjoint();
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<PreluWhere>& ctx, const Tensor& condition, const Tensor& x,
                        const Tensor& other) {
    ctx.save(condition);
    return where(condition, x, other);
  }
  static void backward(Ctx<PreluWhere>& ctx, const Tensor& g) {
    const Tensor condition = ctx.saved(0);
    if (ctx.needs(1)) ctx.grad(1) = kinked(ctx, where(condition, g, 0.0), 1);
    if (ctx.needs(2)) ctx.grad(2) = kinked(ctx, where(condition, 0.0, g), 2);
  }
};

struct Prelu {
  static constexpr OpSpec spec{
      "prelu",
      "input, weight",
      kFunctional | kReduction | kAutocastLow,
      "The input where it is positive, elsewhere input * weight: one weight, or one per channel "
      "(dim 1).",
      "T(3, 4), T(1); T(3, 4), T(4); T(2, 3, 4), T(3); T(), T(1); T(4), T()",
      "np.where(input > 0, input, input * (weight.reshape(()) if weight.size == 1 else "
      "weight.reshape([1, -1] + [1] * (input.ndim - 2))))"};
  static Tensor forward(const Tensor& x, const Tensor& weight) {
    COGRAD_CHECK(x.dtype() == weight.dtype(), "prelu: Type promoting not supported. Got ",
                 scalar_type_name(x.dtype()), " and ", scalar_type_name(weight.dtype()));
    COGRAD_CHECK(
        weight.dim() <= 1,
        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = ", weight.dim());
    Dims shape(static_cast<size_t>(x.dim()), 1);
    if (weight.numel() != 1) {
      COGRAD_CHECK(x.dim() > 0, "Not allow zero-dim input tensor.");
      const int64_t channels = x.dim() > 1 ? x.size(1) : 1;
      COGRAD_CHECK(weight.numel() == channels,
                   "Mismatch of parameter numbers and input channel size. Found parameter numbers "
                   "= ",
                   weight.numel(), " and channel size = ", channels, ".");
      shape[1] = channels;
    }
    return apply<PreluWhere>(gt(x, 0), x, mul(x, reshape(weight, shape)));
  }
};
COGRAD_OP(Prelu)

}  // namespace

}  // namespace cograd
