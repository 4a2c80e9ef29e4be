// SPDX-License-Identifier: BSD-3-Clause
// Splits floats into mantissas and exponents.
#include <cmath>

#include "cograd/dispatch.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"
#include "tensor/threads.h"

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
    COGRAD_DISPATCH_FLOATING_AND_HALF(x.dtype(), "frexp", [&] {
      using T = scalar_t;
      const T* from = x.data<T>();
      T* m = mantissa.data<T>();
      int32_t* e = exponent.data<int32_t>();
      parallel_for(0, x.numel(), 16384, [&](int64_t lo, int64_t hi) {
        for (; lo < hi; ++lo) {
          int power = 0;
          const auto v = static_cast<double>(from[lo]);
          const double part = std::frexp(v, &power);
          if constexpr (std::is_same_v<T, double>)
            m[lo] = part;
          else
            m[lo] = static_cast<T>(static_cast<float>(part));
          e[lo] = std::isfinite(v) ? power : 0;
        }
      });
    });
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
