// SPDX-License-Identifier: BSD-3-Clause
// Splits floats into mantissas and exponents.
#include "kernels/elementwise/frexp.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"

namespace cograd {

namespace {

struct Frexp {
  static constexpr OpSpec spec{
      "frexp",
      "input",
      kFunctional | kOut | kOther,
      "Mantissas m in [0.5, 1) and int32 exponents e with input = m * 2^e; 0 for 0, inf and NaN.",
      "T(3, 4); T(); T(0, 3)",
      "",
      "mantissa, exponent"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr BatchRule kBatch = pointwise();
  static constexpr int kSaved = 1;
  static std::tuple<Tensor, Tensor> forward(Ctx<Frexp>& ctx, const Tensor& input) {
    COGRAD_CHECK(is_floating(input.dtype()), "torch.frexp() only supports floating-point dtypes");
    const Tensor x = raw_contiguous(input);
    const Tensor mantissa = empty(x.sizes(), x.dtype()), exponent = empty(x.sizes(), DType::Int32);
    kernels::frexp(x.dtype(), x.bytes(), x.numel(), mantissa.bytes(), exponent.data<int32_t>());
    ctx.save(exponent);
    return {mantissa, exponent};
  }
  static void backward(Ctx<Frexp>& ctx, std::span<Tensor> gs) {
    if (gs[0].defined()) ctx.grad(0) = ldexp(gs[0], neg(ctx.saved(0)));
  }
};
COGRAD_OP(Frexp)

}  // namespace

}  // namespace cograd
