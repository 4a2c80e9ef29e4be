// SPDX-License-Identifier: BSD-3-Clause
// Variance and standard deviation over any dims.
#include <cmath>

#include "ops/reduce/reduce.h"
#include "tensor/warn.h"

namespace cograd {

namespace {

void check_floating(const char* who, const char* verb, const Tensor& x) {
  COGRAD_CHECK(is_floating(x.dtype()), who, " only ", verb,
               " floating point and complex dtypes, got ", scalar_type_name(x.dtype()));
}

struct Moments : ReduceState {
  double divisor = 1;  // n - correction, clamped to 0
  double count = 1;
};

template <class Op>
std::tuple<Tensor, Tensor> run_var(Ctx<Op>& ctx, const Tensor& x,
                                   const std::optional<IntList>& dims,
                                   std::optional<Scalar> correction, bool keepdim, bool take_sqrt,
                                   bool with_mean) {
  const DimMask mask = dim_mask(x, dims);
  const ReducePlan plan(x, mask, keepdim);
  const double c = correction ? correction->to_double() : 1.0;
  if (static_cast<double>(plan.count) - c <= 0)
    warn(std::string(Op::spec.name) +
         "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
         "factor (input numel divided by output numel).");
  if (ctx.recording()) {
    ctx->sizes = Dims(x.sizes());
    ctx->mask = mask;
    ctx->count = static_cast<double>(plan.count);
    ctx->divisor = std::max(ctx->count - c, 0.0);
    ctx.save(x);
  }
  Tensor spread = empty(plan.shape, x.dtype());
  Tensor mean = with_mean ? empty(plan.shape, x.dtype()) : Tensor();
  kernels::reduce_var(x.dtype(), x.bytes(), plan.geometry(), c, take_sqrt, x.dtype(),
                      spread.bytes(), with_mean ? mean.bytes() : nullptr);
  if (take_sqrt) ctx.save_output(spread);
  return {spread, mean};
}

// d var / dx = 2 (x - mean) / (n - correction)
Tensor var_gradient(const Tensor& g, const Tensor& x, const Moments& m) {
  const Dims dims = mask_dims(m.mask);
  const Tensor center = m.mask == 0 ? x : mean(x, dims, true);
  return expand_reduced(g, m.sizes, m.mask) * ((x - center) * (2.0 / m.divisor));
}
// d std = d var / (2 std), taken as 0 where the standard deviation is 0.
Tensor std_gradient(const Tensor& g, const Tensor& x, const Tensor& y, const Moments& m) {
  return var_gradient(ratio_or_zero(g, y) * 0.5, x, m);
}
Tensor mean_gradient(const Tensor& g, const Moments& m) {
  return expand_reduced(g / m.count, m.sizes, m.mask);
}

struct VarOp {
  static constexpr OpSpec spec{"var", "input, dim, correction, keepdim", kInternal | kReduction, "",
                               "none: var"};
  static constexpr int kSaved = 1;
  using State = Moments;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<VarOp>& ctx, const Tensor& x, std::optional<DimList> dims,
                        std::optional<Scalar> correction, bool keepdim) {
    check_floating("std and var", "support", x);
    return std::get<0>(run_var(ctx, x, dims, correction, keepdim, false, false));
  }
  static Tensor backward(Ctx<VarOp>& ctx, const Tensor& g) {
    return var_gradient(g, ctx.saved(0), *ctx.operator->());
  }
};

struct StdOp {
  static constexpr OpSpec spec{"std", "input, dim, correction, keepdim", kInternal | kReduction, "",
                               "none: std"};
  static constexpr int kSaved = 2;
  using State = Moments;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<StdOp>& ctx, const Tensor& x, std::optional<DimList> dims,
                        std::optional<Scalar> correction, bool keepdim) {
    check_floating("std and var", "support", x);
    return std::get<0>(run_var(ctx, x, dims, correction, keepdim, true, false));
  }
  static Tensor backward(Ctx<StdOp>& ctx, const Tensor& g) {
    return std_gradient(g, ctx.saved(0), ctx.saved(1), *ctx.operator->());
  }
};

struct VarMeanOp {
  static constexpr OpSpec spec{"var_mean", "input, dim, correction, keepdim",
                               kInternal | kReduction, "", "none: var_mean"};
  static constexpr int kSaved = 1;
  using State = Moments;
  static constexpr BatchRule kBatch = by_dims();
  static std::tuple<Tensor, Tensor> forward(Ctx<VarMeanOp>& ctx, const Tensor& x,
                                            std::optional<DimList> dims,
                                            std::optional<Scalar> correction, bool keepdim) {
    check_floating("var_mean", "support", x);
    return run_var(ctx, x, dims, correction, keepdim, false, true);
  }
  static void backward(Ctx<VarMeanOp>& ctx, std::span<Tensor> gs) {
    const Moments& m = *ctx.operator->();
    Tensor gx;
    if (gs[0].defined()) gx = var_gradient(gs[0], ctx.saved(0), m);
    if (gs[1].defined()) gx = gx.defined() ? gx + mean_gradient(gs[1], m) : mean_gradient(gs[1], m);
    ctx.grad(0) = gx;
  }
};

struct StdMeanOp {
  static constexpr OpSpec spec{"std_mean", "input, dim, correction, keepdim",
                               kInternal | kReduction, "", "none: std_mean"};
  static constexpr int kSaved = 2;
  using State = Moments;
  static constexpr BatchRule kBatch = by_dims();
  static std::tuple<Tensor, Tensor> forward(Ctx<StdMeanOp>& ctx, const Tensor& x,
                                            std::optional<DimList> dims,
                                            std::optional<Scalar> correction, bool keepdim) {
    check_floating("std_mean", "support", x);
    return run_var(ctx, x, dims, correction, keepdim, true, true);
  }
  static void backward(Ctx<StdMeanOp>& ctx, std::span<Tensor> gs) {
    const Moments& m = *ctx.operator->();
    Tensor gx;
    if (gs[0].defined()) gx = std_gradient(gs[0], ctx.saved(0), ctx.saved(1), m);
    if (gs[1].defined()) gx = gx.defined() ? gx + mean_gradient(gs[1], m) : mean_gradient(gs[1], m);
    ctx.grad(0) = gx;
  }
};

// For complex numbers, E |z - E z|^2 is the sum of the variances of their parts.
template <class Op>
typename detail::Traits<Op>::Out spread_of(const Tensor& x, const std::optional<IntList>& dims,
                                           std::optional<Scalar> correction, bool keepdim) {
  using Result = typename detail::Traits<Op>::Out;
  if (!is_complex(x.dtype())) return apply<Op>(x, dims, correction, keepdim);
  Tensor spread = apply<VarOp>(real(x), dims, correction, keepdim) +
                  apply<VarOp>(imag(x), dims, correction, keepdim);
  if constexpr (std::is_same_v<Op, StdOp> || std::is_same_v<Op, StdMeanOp>) {
    const Tensor none = eq(spread, 0);
    spread = where(none, 0.0, sqrt(where(none, 1.0, spread)));
  }
  if constexpr (std::is_same_v<Result, Tensor>)
    return spread;
  else
    return {spread, mean(x, dims, keepdim)};
}

std::optional<Scalar> correction_of(bool unbiased) { return Scalar(unbiased ? 1 : 0); }

// Each op has three overloads: f(dim, unbiased, keepdim), f(unbiased) and f(dim, *, correction,
// keepdim), tried in this order.
#define COGRAD_SPREAD(Prefix, name, Result, what, numpy, returned)                                \
  struct Prefix##Dim {                                                                            \
    static constexpr OpSpec spec{name,                                                            \
                                 "input, dim, unbiased=True, keepdim=False",                      \
                                 kFunctional | kReduction | kNoCpp,                               \
                                 what " over dim.",                                               \
                                 "T(3, 4), 1; T(2, 3, 4), (0, 2), False, True",                   \
                                 numpy("dim", "unbiased", "keepdim"),                             \
                                 returned};                                                       \
    static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;                              \
    static Result forward(const Tensor& x, std::optional<DimList> dims, bool unbiased,            \
                          bool keepdim) {                                                         \
      return spread_of<Prefix##Op>(x, dims, correction_of(unbiased), keepdim);                    \
    }                                                                                             \
  };                                                                                              \
  COGRAD_OP(Prefix##Dim)                                                                          \
  struct Prefix##Unbiased {                                                                       \
    static constexpr OpSpec spec{name,                                                            \
                                 "input, unbiased",                                               \
                                 kFunctional | kReduction,                                        \
                                 what " of all elements.",                                        \
                                 "T(3, 4), False; T(3, 4), True",                                 \
                                 numpy("None", "unbiased", "False"),                              \
                                 returned};                                                       \
    static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;                              \
    static Result forward(const Tensor& x, bool unbiased) {                                       \
      return spread_of<Prefix##Op>(x, std::optional<IntList>(), correction_of(unbiased), false);  \
    }                                                                                             \
  };                                                                                              \
  COGRAD_OP(Prefix##Unbiased)                                                                     \
  struct Prefix {                                                                                 \
    static constexpr OpSpec spec{name,                                                            \
                                 "input, dim=None, *, correction=1, keepdim=False",               \
                                 kFunctional | kOut | kReduction,                                 \
                                 what " over dim, the sum of squares divided by n - correction.", \
                                 "T(3, 4); T(3, 4), 1, correction=0; "                            \
                                 "T(2, 3, 4), (0, 2), correction=2, keepdim=True",                \
                                 numpy("dim", "correction", "keepdim"),                           \
                                 returned};                                                       \
    static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;                              \
    static Result forward(const Tensor& x, std::optional<DimList> dims,                           \
                          std::optional<Scalar> correction, bool keepdim) {                       \
      return spread_of<Prefix##Op>(x, dims, correction, keepdim);                                 \
    }                                                                                             \
  };                                                                                              \
  COGRAD_OP(Prefix)
#define VAR_REF(dim, ddof, keep) "np.var(input, axis=" dim ", ddof=" ddof ", keepdims=" keep ")"
#define STD_REF(dim, ddof, keep) "np.std(input, axis=" dim ", ddof=" ddof ", keepdims=" keep ")"
#define NO_REF(dim, ddof, keep) ""
using Pair = std::tuple<Tensor, Tensor>;
COGRAD_SPREAD(Var, "var", Tensor, "Variance", VAR_REF, "")
COGRAD_SPREAD(Std, "std", Tensor, "Standard deviation", STD_REF, "")
COGRAD_SPREAD(VarMean, "var_mean", Pair, "Variance and mean", NO_REF, "")
COGRAD_SPREAD(StdMean, "std_mean", Pair, "Standard deviation and mean", NO_REF, "")
#undef COGRAD_SPREAD

}  // namespace

}  // namespace cograd
