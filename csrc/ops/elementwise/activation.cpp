// SPDX-License-Identifier: BSD-3-Clause
// Activations with options, and comparisons that look at whole tensors.
#include "ops/reduce/reduce.h"

namespace cograd {

namespace {

using kernels::ReduceOp;
using kernels::UnaryOp;

struct Gelu {
  static constexpr OpSpec spec{
      "gelu",
      "input, *, approximate='none'",
      kFunction | kNN | kElementwise,
      "input * Phi(input), Phi the normal distribution function; approximate 'tanh' avoids erf.",
      "T(3, 4, lo=-3, hi=3); T(3, 4, lo=-3, hi=3), approximate='tanh'",
      ""};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr int kSaved = 1;
  struct State {
    bool by_tanh = false;
  };
  static Tensor forward(Ctx<Gelu>& ctx, const Tensor& x, std::string_view approximate) {
    COGRAD_CHECK(approximate == "none" || approximate == "tanh",
                 "approximate argument must be either none or tanh.");
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(x.dtype()), "gelu(): not implemented for dtype ",
                                 scalar_type_name(x.dtype()), ", expected a floating one");
    ctx->by_tanh = approximate == "tanh";
    ctx.save(x);
    return unary_op(ctx, row(ctx), x, Rule::Same, "gelu");
  }
  static Tensor backward(Ctx<Gelu>& ctx, const Tensor& g) {
    const Tensor x = ctx.saved(0);
    const kernels::ElementParams e;
    const Tensor fused =
        fused_backward(kernels::unary_backward_loop(row(ctx), g.dtype()), g, {&x, 1}, &e);
    if (fused.defined()) return fused;
    return g * (ctx->by_tanh ? slope_tanh(x) : slope(x));
  }

 private:
  static UnaryOp row(Ctx<Gelu>& ctx) { return ctx->by_tanh ? UnaryOp::gelu_tanh : UnaryOp::gelu; }
  // Phi(x) + x phi(x)
  static Tensor slope(const Tensor& x) {
    const Tensor cdf = (erf(x * 0.70710678118654752) + 1.0) * 0.5;
    return cdf + x * exp(square(x) * -0.5) * 0.39894228040143268;
  }
  // With t = tanh(c (x + 0.044715 x^3)): (1 + t) / 2 + x (1 - t^2) c (1 + 3 * 0.044715 x^2) / 2
  static Tensor slope_tanh(const Tensor& x) {
    constexpr double c = 0.79788456080286536;
    const Tensor xx = square(x);
    const Tensor t = tanh(x * (xx * 0.044715 + 1.0) * c);
    return (t + 1.0) * 0.5 + x * (1.0 - square(t)) * (xx * 0.134145 + 1.0) * (c / 2);
  }
};
COGRAD_OP(Gelu)

Tensor close_to(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  COGRAD_CHECK(a.dtype() == b.dtype(), scalar_type_name(a.dtype()), " did not match ",
               scalar_type_name(b.dtype()));
  COGRAD_CHECK(rtol >= 0, "rtol must be greater than or equal to zero, but got ", rtol);
  COGRAD_CHECK(atol >= 0, "atol must be greater than or equal to zero, but got ", atol);
  GradGuard no_grad(false);
  Tensor close = eq(a, b);
  if (equal_nan && is_floating(a.dtype()))
    close = logical_or(close, logical_and(isnan(a), isnan(b)));
  if (rtol == 0 && atol == 0) return close;
  const DType wide = is_floating(a.dtype()) ? a.dtype() : DType::Float64;
  const Tensor x = cast(a, wide), y = cast(b, wide);
  const Tensor error = abs(x - y);
  return logical_or(close, logical_and(isfinite(error), le(error, abs(y) * rtol + atol)));
}

bool all_true(const Tensor& t) {
  if (t.numel() == 0) return true;
  const ReducePlan plan(t, all_dims(t.dim()), false);
  bool result = false;
  kernels::reduce(ReduceOp::All, t.dtype(), t.bytes(), plan.geometry(), DType::Bool, &result);
  return result;
}

struct IsClose {
  static constexpr OpSpec spec{"isclose",
                               "input, other, rtol=1e-05, atol=1e-08, equal_nan=False",
                               kFunctional | kNondiff | kElementwise,
                               "True where |input - other| <= atol + rtol * |other|.",
                               "T(3, 4), T(3, 4); T(3, 1), T(4), 0.5, 0.5",
                               "np.isclose(input, other, rtol, atol, equal_nan)"};
  static Tensor forward(Ctx<IsClose>&, const Tensor& a, const Tensor& b, double rtol, double atol,
                        bool equal_nan) {
    return close_to(a, b, rtol, atol, equal_nan);
  }
};
COGRAD_OP(IsClose)

struct AllClose {
  static constexpr OpSpec spec{"allclose",
                               "input, other, rtol=1e-05, atol=1e-08, equal_nan=False",
                               kFunctional | kNondiff | kReduction,
                               "Whether isclose holds everywhere.",
                               "T(3, 4), T(3, 4); T(3, 1), T(4), 0.5, 9.0",
                               ""};
  static bool forward(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
    return all_true(close_to(a, b, rtol, atol, equal_nan));
  }
};
COGRAD_OP(AllClose)

struct Equal {
  static constexpr OpSpec spec{"equal",
                               "input, other",
                               kFunctional | kNondiff | kReduction,
                               "Whether two tensors have the same shape and elements.",
                               "T(3, 4), T(3, 4); I(3, hi=1), I(3, hi=1); T(3), T(4)",
                               ""};
  static bool forward(const Tensor& a, const Tensor& b) {
    GradGuard no_grad(false);
    return same(a.sizes(), b.sizes()) && all_true(eq(a, b));
  }
};
COGRAD_OP(Equal)

struct FloatPower {
  static constexpr OpSpec spec{"float_power",
                               "input, exponent",
                               kFunctional | kOut | kElementwise,
                               "input ** exponent computed in float64.",
                               "P(3, 4), P(3, 4); P(3), 2.5",
                               "np.float_power(input, exponent)"};
  static Tensor forward(const TensorOrScalar& a, const TensorOrScalar& b) {
    const Tensor x = a.is_tensor() ? cast(a.tensor(), DType::Float64) : Tensor();
    const Tensor y = b.is_tensor() ? cast(b.tensor(), DType::Float64) : Tensor();
    return pow(x.defined() ? TensorOrScalar(x) : TensorOrScalar(a.scalar().to_double()),
               y.defined() ? TensorOrScalar(y) : TensorOrScalar(b.scalar().to_double()));
  }
};
COGRAD_OP(FloatPower)

struct Ldexp {
  static constexpr OpSpec spec{"ldexp",
                               "input, other",
                               kFunctional | kOut | kElementwise,
                               "input * 2 ** other, element-wise.",
                               "T(3, 4), I(3, 4, hi=5)",
                               "np.ldexp(input, other)"};
  static Tensor forward(const Tensor& a, const Tensor& b) {
    return mul(a, pow(TensorOrScalar(2.0), b));
  }
};
COGRAD_OP(Ldexp)

}  // namespace

}  // namespace cograd
