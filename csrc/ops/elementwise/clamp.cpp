// SPDX-License-Identifier: BSD-3-Clause
// Limits and repairs: clamp, clamp_min, clamp_max, nan_to_num, logit with eps, round to decimals.
#include <cmath>
#include <limits>

#include "ops/core/ops.h"
#include "ops/core/raw.h"

namespace cograd {

using kernels::BinaryOp;
using kernels::ElementParams;
using kernels::UnaryOp;

namespace {

using Bound = std::optional<TensorOrScalar>;

Tensor inside(const Tensor& x, const Tensor& lo, const Tensor& hi) {
  if (!lo.defined()) return le(x, hi);
  if (!hi.defined()) return ge(x, lo);
  return logical_and(ge(x, lo), le(x, hi));
}

ElementParams limits(Scalar lo, Scalar hi) {
  ElementParams e;
  if (lo.is_float())
    e.set(0, lo.to_double());
  else
    e.set(0, lo.to_int());
  if (hi.is_float())
    e.set(1, hi.to_double());
  else
    e.set(1, hi.to_int());
  return e;
}

struct NumberLimits {
  Scalar lo, hi;
  bool has_lo, has_hi;
};

// Both bounds numbers.
Tensor clamp_numbers(CtxBase& ctx, const Tensor& x, const NumberLimits& b, DType type,
                     const char* name) {
  const Tensor in = raw_cast(x, type);
  if (b.has_lo && b.has_hi) {
    const ElementParams e = limits(b.lo, b.hi);
    return unary_op(ctx, UnaryOp::clamp, in, Rule::Same, name, &e);
  }
  const ElementParams e = limits(b.has_lo ? b.lo : b.hi, 0);
  return unary_op(ctx, b.has_lo ? UnaryOp::clamp_min : UnaryOp::clamp_max, in, Rule::Same, name,
                  &e);
}

struct ClampState {
  NumberLimits numbers;
  bool tensors;
};

template <class Op>
Tensor clamp_to(Ctx<Op>& ctx, const Tensor& x, const Bound& lo, const Bound& hi, const char* name) {
  COGRAD_CHECK(lo || hi, "torch.clamp: At least one of 'min' or 'max' must not be None");
  ResultType type;
  type.add(x);
  if (lo) type.add(*lo);
  if (hi) type.add(*hi);
  const Tensor* tlo = lo ? lo->tensor_or_null() : nullptr;
  const Tensor* thi = hi ? hi->tensor_or_null() : nullptr;
  const bool tensors = tlo != nullptr || thi != nullptr;
  const NumberLimits b{lo ? lo->scalar() : Scalar(), hi ? hi->scalar() : Scalar(), lo.has_value(),
                       hi.has_value()};
  *ctx.operator->() = {b, tensors};
  ctx.save(x);
  if (!tensors) {
    const bool nan = (lo && std::isnan(b.lo.to_double())) || (hi && std::isnan(b.hi.to_double()));
    if (nan && is_floating(type.get())) {  // a NaN bound makes everything NaN
      Tensor out = ctx.out(x.sizes(), type.get());
      raw_fill(out, std::numeric_limits<double>::quiet_NaN());
      return out;
    }
    return clamp_numbers(ctx, x, b, type.get(), name);
  }
  const Tensor a = !lo ? Tensor() : tlo != nullptr ? *tlo : wrapped_number(b.lo);
  const Tensor c = !hi ? Tensor() : thi != nullptr ? *thi : wrapped_number(b.hi);
  ctx.save(a, c);
  const Tensor in = raw_cast(x, type.get());
  if (!c.defined()) return binary_op(ctx, BinaryOp::maximum, in, a, Rule::Same, name);
  if (!a.defined()) return binary_op(ctx, BinaryOp::minimum, in, c, Rule::Same, name);
  CtxBase plain;
  const Tensor raised = binary_op(plain, BinaryOp::maximum, in, a, Rule::Same, name);
  return binary_op(ctx, BinaryOp::minimum, raised, c, Rule::Same, name);
}

// The gradient goes to whichever of input, min and max the result is; input at its bounds.
template <class Op>
void clamp_gradient(Ctx<Op>& ctx, const Tensor& g, size_t edge_lo, size_t edge_hi) {
  const Tensor x = ctx.saved(0);
  const ClampState& s = *ctx.operator->();
  if (!s.tensors) {
    const NumberLimits& b = s.numbers;
    Tensor keep;
    if (b.has_lo) keep = ge(x, TensorOrScalar(b.lo));
    if (b.has_hi) {
      const Tensor below = le(x, TensorOrScalar(b.hi));
      keep = keep.defined() ? logical_and(keep, below) : below;
    }
    if (ctx.needs(0)) ctx.grad(0) = where(keep, g, 0.0);
    return;
  }
  const Tensor lo = ctx.saved(1), hi = ctx.saved(2);
  if (ctx.needs(0)) ctx.grad(0) = where(inside(x, lo, hi), g, 0.0);
  // min > max: the result is max.
  if (lo.defined() && ctx.needs(edge_lo)) {
    Tensor mine = lt(x, lo);
    if (hi.defined()) mine = logical_and(mine, lt(lo, hi));
    ctx.grad(edge_lo) = where(mine, g, 0.0);
  }
  if (hi.defined() && ctx.needs(edge_hi)) {
    Tensor mine = gt(x, hi);
    if (lo.defined()) mine = logical_or(mine, le(hi, lo));
    ctx.grad(edge_hi) = where(mine, g, 0.0);
  }
}

struct Clamp {
  static constexpr OpSpec spec{"clamp",
                               "input, min=None, max=None",
                               kForms | kElementwise,
                               "The input limited to [min, max]; a bound may be None, a number or "
                               "a tensor.",
                               "T(3, 4), -0.5, 0.5; T(3, 4), 0.1; T(3, 4), max=0.2; "
                               "T(3, 4), T(4), T(3, 1); T(3, 4), None, T(3, 4)",
                               "np.clip(input, min, max)"};
  static constexpr int kSaved = 3;
  using State = ClampState;
  static std::string node_name(const State& s) {
    return s.tensors ? "ClampBackward0" : "ClampBackward1";
  }
  static Tensor forward(Ctx<Clamp>& ctx, const Tensor& x, Bound lo, Bound hi) {
    return clamp_to(ctx, x, lo, hi, "clamp");
  }
  static void backward(Ctx<Clamp>& ctx, const Tensor& g) { clamp_gradient(ctx, g, 1, 2); }
};
COGRAD_OP(Clamp)

struct ClampMin {
  static constexpr OpSpec spec{"clamp_min",
                               "input, min",
                               kForms | kElementwise,
                               "The input, but not less than min.",
                               "T(3, 4), 0.1; T(3, 4), T(4)",
                               "np.maximum(input, min)"};
  static constexpr int kSaved = 3;
  using State = ClampState;
  static std::string node_name(const State& s) {
    return s.tensors ? "ClampMinBackward1" : "ClampMinBackward0";
  }
  static Tensor forward(Ctx<ClampMin>& ctx, const Tensor& x, const TensorOrScalar& lo) {
    return clamp_to(ctx, x, lo, std::nullopt, "clamp_min");
  }
  static void backward(Ctx<ClampMin>& ctx, const Tensor& g) { clamp_gradient(ctx, g, 1, 1); }
};
COGRAD_OP(ClampMin)

struct ClampMax {
  static constexpr OpSpec spec{"clamp_max",
                               "input, max",
                               kForms | kElementwise,
                               "The input, but not more than max.",
                               "T(3, 4), 0.1; T(3, 4), T(4)",
                               "np.minimum(input, max)"};
  static constexpr int kSaved = 3;
  using State = ClampState;
  static std::string node_name(const State& s) {
    return s.tensors ? "ClampMaxBackward1" : "ClampMaxBackward0";
  }
  static Tensor forward(Ctx<ClampMax>& ctx, const Tensor& x, const TensorOrScalar& hi) {
    return clamp_to(ctx, x, std::nullopt, hi, "clamp_max");
  }
  static void backward(Ctx<ClampMax>& ctx, const Tensor& g) { clamp_gradient(ctx, g, 1, 1); }
};
COGRAD_OP(ClampMax)

struct NanToNum {
  static constexpr OpSpec spec{
      "nan_to_num",
      "input, nan=None, posinf=None, neginf=None",
      kForms | kElementwise,
      "NaN, inf and -inf replaced: by 0, the largest and the lowest number "
      "of the dtype unless given.",
      "T(3, 4); T(3), 1.0, 2.0, 3.0",
      "np.nan_to_num(input)"};
  static constexpr int kSaved = 1;
  static Tensor forward(Ctx<NanToNum>& ctx, const Tensor& x, std::optional<double> nan,
                        std::optional<double> posinf, std::optional<double> neginf) {
    ctx.save(x);
    if (!is_floating(x.dtype())) {
      Tensor out = ctx.out(x.sizes(), x.dtype());
      if (!out.is(x)) raw_copy(out, x);
      return out;
    }
    const double top = largest(x.dtype());
    ElementParams e;
    e.set(0, nan.value_or(0)).set(1, posinf.value_or(top)).set(2, neginf.value_or(-top));
    return unary_op(ctx, UnaryOp::nan_to_num, x, Rule::Same, "nan_to_num", &e);
  }
  static Tensor backward(Ctx<NanToNum>& ctx, const Tensor& g) {
    return where(isfinite(ctx.saved(0)), g, 0.0);
  }

 private:
  static double largest(DType t) {
    switch (t) {
      case DType::Float16:
        return 65504.0;
      case DType::BFloat16:
        return 3.3895313892515355e38;
      case DType::Float32:
        return double{std::numeric_limits<float>::max()};
      default:
        return std::numeric_limits<double>::max();
    }
  }
};
COGRAD_OP(NanToNum)

struct Logit {
  static constexpr OpSpec spec{
      "logit",
      "input, eps=None",
      kForms | kElementwise,
      "log(input / (1 - input)); eps first limits input to [eps, 1 - eps].",
      "T(3, 4, lo=0.1, hi=0.9); T(3, 4, lo=0.1, hi=0.9), 0.2",
      ""};
  static constexpr int kSaved = 1;
  struct State {
    double eps = -1;
  };
  static Tensor forward(Ctx<Logit>& ctx, const Tensor& x, std::optional<double> eps) {
    ctx->eps = eps.value_or(-1);
    ctx.save(x);
    if (!eps) return unary_op(ctx, UnaryOp::logit, x, Rule::Float, "logit");
    CtxBase plain;
    const Tensor in = raw_cast(x, is_floating(x.dtype()) ? x.dtype() : default_dtype());
    const Tensor limited =
        clamp_numbers(plain, in, {*eps, 1 - *eps, true, true}, in.dtype(), "logit");
    return unary_op(ctx, UnaryOp::logit, limited, Rule::Float, "logit");
  }
  static Tensor backward(Ctx<Logit>& ctx, const Tensor& g) {
    const Tensor x = ctx.saved(0);
    const Tensor gx = g / (x * (1.0 - x));
    if (ctx->eps < 0) return gx;
    return where(logical_and(ge(x, ctx->eps), le(x, 1 - ctx->eps)), gx, 0.0);
  }
};
COGRAD_OP(Logit)

struct RoundDecimals {
  static constexpr OpSpec spec{"round",
                               "input, *, decimals",
                               kForms | kElementwise,
                               "Nearest value with so many decimals, halves to even.",
                               "T(3, 4), decimals=1; T(3, 4, lo=-90, hi=90), decimals=-1",
                               "np.round(input, decimals)"};
  static Tensor forward(Ctx<RoundDecimals>& ctx, const Tensor& x, int64_t decimals) {
    if (decimals == 0) return unary_op(ctx, UnaryOp::round, x, Rule::Same, "round");
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(x.dtype()),
                                 "round(): decimals are not implemented for dtype ",
                                 dtype_name(x.dtype()));
    ElementParams e;
    e.set(0, std::pow(10.0, static_cast<double>(std::abs(decimals))))
        .set(1, decimals < 0 ? 1.0 : 0.0);
    return unary_op(ctx, UnaryOp::round_scaled, x, Rule::Same, "round", &e);
  }
  static Tensor backward(Ctx<RoundDecimals>&, const Tensor& g) { return zeros_like(g); }
};
COGRAD_OP(RoundDecimals)

}  // namespace

}  // namespace cograd
