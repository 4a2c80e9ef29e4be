// SPDX-License-Identifier: BSD-3-Clause
// The arithmetic operators: the hottest ops, with numbers kept out of tensors.
#include <cmath>

#include "ops/core/ops.h"
#include "ops/core/raw.h"

namespace cograd {

using kernels::BinaryOp;
using kernels::ElementParams;
using kernels::UnaryOp;

namespace {

Tensor scaled(const Tensor& g, const Scalar& alpha) {
  return alpha.equals(1) ? g : mul(g, TensorOrScalar(alpha));
}

void check_alpha(const char* op, DType result, const Scalar& alpha) {
  COGRAD_CHECK(result == DType::Bool || !alpha.is_bool(),
               "Boolean alpha only supported for Boolean results.");
  COGRAD_CHECK(
      is_floating(result) || !alpha.is_float(), op,
      "(): For integral input tensors, argument alpha must not be a floating point number.");
}

Tensor add_scaled_by(CtxBase& ctx, BinaryOp plain, const TensorOrScalar& a, const TensorOrScalar& b,
                     const Scalar& alpha, double sign, const char* name) {
  if (alpha.equals(1) && !alpha.is_bool()) return binary_op(ctx, plain, a, b, Rule::Same, name);
  check_alpha(name, result_type(a, b), alpha);
  ElementParams e;
  if (alpha.is_float())
    e.set(0, sign * alpha.to_double());
  else
    e.set(0, static_cast<int64_t>(sign) * alpha.to_int());
  return binary_op(ctx, BinaryOp::add_scaled, a, b, Rule::Same, name, &e);
}

struct Add {
  static constexpr OpSpec spec{
      "add",
      "input, other, *, alpha=1",
      kForms | kElementwise,
      "input + alpha * other, element-wise with broadcasting and type promotion.",
      "T(3, 4), T(3, 4); T(2, 3, 1), T(4); T(3), 2.5; T(3, 4), T(3, 4), alpha=0.5",
      "input + alpha * other"};
  struct State {
    Scalar alpha;
  };
  static Tensor forward(Ctx<Add>& ctx, const TensorOrScalar& a, const TensorOrScalar& b,
                        Scalar alpha) {
    ctx->alpha = alpha;
    return add_scaled_by(ctx, BinaryOp::add, a, b, alpha, 1, "add");
  }
  static void backward(Ctx<Add>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = g;
    if (ctx.needs(1)) ctx.grad(1) = scaled(g, ctx->alpha);
  }
};
COGRAD_OP(Add)

void check_sub(const TensorOrScalar& a, const TensorOrScalar& b) {
  const auto is_bool = [](const TensorOrScalar& v) {
    return v.is_tensor() ? v.tensor().dtype() == DType::Bool : v.scalar().is_bool();
  };
  const bool both = is_bool(a) && is_bool(b);
  COGRAD_CHECK(!both,
               "Subtraction, the `-` operator, with two bool tensors is not supported. Use the "
               "`^` or `logical_xor()` operator instead.");
  COGRAD_CHECK(!is_bool(a) && !is_bool(b),
               "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
               "trying to invert a mask, use the `~` or `logical_not()` operator instead.");
}

struct Sub {
  static constexpr OpSpec spec{
      "sub",
      "input, other, *, alpha=1",
      kForms | kElementwise,
      "input - alpha * other, element-wise with broadcasting and type promotion.",
      "T(3, 4), T(3, 4); T(2, 3, 1), T(4); T(3), 2.5; T(3, 4), T(3, 4), alpha=0.5",
      "input - alpha * other"};
  static constexpr DTypeSet kDTypes = kNumericTypes;
  using State = Add::State;
  static Tensor forward(Ctx<Sub>& ctx, const TensorOrScalar& a, const TensorOrScalar& b,
                        Scalar alpha) {
    check_sub(a, b);
    ctx->alpha = alpha;
    return add_scaled_by(ctx, BinaryOp::sub, a, b, alpha, -1, "sub");
  }
  static void backward(Ctx<Sub>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = g;
    if (ctx.needs(1)) ctx.grad(1) = scaled(g, -ctx->alpha);
  }
};
COGRAD_OP(Sub)

struct Rsub {
  static constexpr OpSpec spec{"rsub",
                               "input, other, *, alpha=1",
                               kFunctional | kElementwise,
                               "other - alpha * input, element-wise.",
                               "T(3, 4), T(3, 4); T(3), 2.5",
                               "other - alpha * input"};
  static constexpr DTypeSet kDTypes = kNumericTypes;
  static Tensor forward(const TensorOrScalar& a, const TensorOrScalar& b, Scalar alpha) {
    return apply<Sub>(b, a, alpha);
  }
};
COGRAD_OP(Rsub)

// The factors, kept only where the other one's gradient will be asked for.
struct Factors {
  Scalar a, b;
  bool scalar_a, scalar_b;
};

template <class Op>
void save_factors(Ctx<Op>& ctx, const TensorOrScalar& a, const TensorOrScalar& b, bool both) {
  *ctx.operator->() = {a.scalar(), b.scalar(), !a.is_tensor(), !b.is_tensor()};
  if (!ctx.recording()) return;
  ctx.save((ctx.needs(1) || both) && a.is_tensor() ? a.tensor() : Tensor(),
           (ctx.needs(0) || both) && b.is_tensor() ? b.tensor() : Tensor());
}

struct Mul {
  static constexpr OpSpec spec{"mul",
                               "input, other",
                               kForms | kElementwise,
                               "input * other, element-wise with broadcasting and type promotion.",
                               "T(3, 4), T(3, 4); T(2, 3, 1), T(4); T(3), 2.5",
                               "input * other"};
  static constexpr int kSaved = 2;
  using State = Factors;
  static Tensor forward(Ctx<Mul>& ctx, const TensorOrScalar& a, const TensorOrScalar& b) {
    save_factors(ctx, a, b, false);
    return binary_op(ctx, BinaryOp::mul, a, b, Rule::Same, "mul");
  }
  static void backward(Ctx<Mul>& ctx, const Tensor& g) {
    if (ctx.needs(0))
      ctx.grad(0) = ctx->scalar_b ? mul(g, TensorOrScalar(ctx->b)) : mul(g, ctx.saved(1));
    if (ctx.needs(1))
      ctx.grad(1) = ctx->scalar_a ? mul(g, TensorOrScalar(ctx->a)) : mul(g, ctx.saved(0));
  }
};
COGRAD_OP(Mul)

struct Div {
  static constexpr OpSpec spec{
      "div",
      "input, other, *, rounding_mode=None",
      kForms | kElementwise,
      "input / other, element-wise; rounding_mode None (true division), 'trunc' or 'floor'.",
      "T(3, 4), P(3, 4); T(2, 3, 1), P(4); T(3), 2.5",
      "input / other"};
  static constexpr int kSaved = 2;
  struct State {
    Factors f;
    bool rounded;
  };
  static Tensor forward(Ctx<Div>& ctx, const TensorOrScalar& a, const TensorOrScalar& b,
                        std::optional<std::string_view> mode) {
    ctx->f = {a.scalar(), b.scalar(), !a.is_tensor(), !b.is_tensor()};
    ctx->rounded = mode.has_value();
    COGRAD_CHECK(!mode || *mode == "trunc" || *mode == "floor",
                 "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
                 mode.value_or(""), "'");
    if (ctx.recording() && !mode)
      ctx.save(ctx.needs(1) && a.is_tensor() ? a.tensor() : Tensor(),
               b.is_tensor() ? b.tensor() : Tensor());
    if (!mode) return binary_op(ctx, BinaryOp::div, a, b, Rule::Float, "div");
    ElementParams e;
    const BinaryOp op = *mode == "trunc" ? BinaryOp::div_trunc : BinaryOp::div_floor;
    return binary_op(ctx, op, a, b, Rule::Same, "div", &e);
  }
  static void backward(Ctx<Div>& ctx, const Tensor& g) {
    if (ctx->rounded) {
      for (size_t i = 0; i < 2; ++i)
        if (ctx.needs(i)) ctx.grad(i) = zeros_like(g);
      return;
    }
    const Tensor b = ctx->f.scalar_b ? Tensor() : ctx.saved(1);
    const Tensor quotient = b.defined() ? div(g, b) : div(g, TensorOrScalar(ctx->f.b));
    if (ctx.needs(0)) ctx.grad(0) = quotient;
    if (ctx.needs(1)) {
      // d(a / b)/db = -(a / b) / b
      const Tensor a = ctx->f.scalar_a ? Tensor() : ctx.saved(0);
      const Tensor y = a.defined() ? div(a, b) : div(TensorOrScalar(ctx->f.a), b);
      ctx.grad(1) = neg(mul(quotient, y));
    }
  }
};
COGRAD_OP(Div)

struct Pow {
  static constexpr OpSpec spec{"pow",
                               "input, exponent",
                               kForms | kElementwise,
                               "input ** exponent, element-wise.",
                               "P(3, 4), P(3, 4); T(3), 3; P(3), 0.5; T(4), 2",
                               "input ** exponent"};
  static constexpr int kSaved = 3;
  using State = Factors;
  static std::string node_name(const State& s) {
    return s.scalar_a ? "PowBackward2" : s.scalar_b ? "PowBackward0" : "PowBackward1";
  }
  static Tensor forward(Ctx<Pow>& ctx, const TensorOrScalar& a, const TensorOrScalar& b) {
    save_factors(ctx, a, b, true);
    Tensor y = compute(ctx, a, b);
    if (ctx.recording() && a.is_tensor() && ctx.needs(1)) ctx.save_output(y);
    return y;
  }
  static void backward(Ctx<Pow>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = grad_base(ctx, g);
    if (ctx.needs(1)) ctx.grad(1) = grad_exponent(ctx, g);
  }

 private:
  static Tensor compute(Ctx<Pow>& ctx, const TensorOrScalar& a, const TensorOrScalar& b) {
    if (!b.is_tensor() && a.is_tensor()) {
      const Tensor& x = a.tensor();
      const Scalar e = b.scalar();
      if (!is_floating(x.dtype())) {
        COGRAD_CHECK(e.is_float() || e.to_int() >= 0,
                     "Integers to negative integer powers are not allowed.");
      } else {
        if (e.equals(2)) return unary_op(ctx, UnaryOp::square, x, Rule::Same, "pow");
        if (e.equals(1)) return unary_op(ctx, UnaryOp::positive, x, Rule::Same, "pow");
        if (e.equals(0.5)) return unary_op(ctx, UnaryOp::sqrt, x, Rule::Same, "pow");
        if (e.equals(3)) return cube(ctx, x);
        ElementParams p;
        p.set(0, e.to_double());
        return unary_op(ctx, UnaryOp::pow_scalar, x, Rule::Same, "pow", &p);
      }
    }
    return binary_op(ctx, BinaryOp::pow, a, b, Rule::Same, "pow");
  }
  static Tensor cube(Ctx<Pow>& ctx, const Tensor& x) {
    CtxBase plain;
    const Tensor square = unary_op(plain, UnaryOp::square, x, Rule::Same, "pow");
    return binary_op(ctx, BinaryOp::mul, square, x, Rule::Same, "pow");
  }
  static Tensor grad_base(Ctx<Pow>& ctx, const Tensor& g) {
    if (!ctx->scalar_b) {
      const Tensor a = ctx_base(ctx);
      const Tensor b = ctx.saved(1);
      return where(eq(b, 0), zeros_like(g), mul(g, mul(b, pow(a, sub(b, 1)))));
    }
    const double e = ctx->b.to_double();
    if (e == 0) return zeros_like(g);
    if (e == 1) return g;
    const Tensor a = ctx_base(ctx);
    if (e == 2) return mul(g, mul(a, 2.0));
    return mul(g, mul(pow(a, TensorOrScalar(e - 1)), e));
  }
  static Tensor grad_exponent(Ctx<Pow>& ctx, const Tensor& g) {
    const Tensor b = ctx.saved(1);
    if (ctx->scalar_a) {
      const double base = ctx->a.to_double();
      const Tensor y = pow(TensorOrScalar(ctx->a), b);
      if (base == 0) return where(ge(b, 0), zeros_like(g), mul(g, mul(y, std::log(base))));
      return mul(g, mul(y, std::log(base)));
    }
    const Tensor a = ctx_base(ctx);
    const Tensor y = ctx.saved(2);
    return where(logical_and(eq(a, 0), ge(b, 0)), zeros_like(g), mul(g, mul(y, log(a))));
  }
  static Tensor ctx_base(Ctx<Pow>& ctx) { return ctx.saved(0); }
};
COGRAD_OP(Pow)

struct Where {
  static constexpr OpSpec spec{"where",
                               "condition, input, other",
                               kFunction | kOut | kElementwise,
                               "input where condition is true, else other; broadcasts.",
                               "B(3, 4), T(3, 4), T(3, 4); B(3, 1), T(4), 1.0",
                               "np.where(condition, input, other)"};
  static constexpr int kSaved = 1;
  static Tensor forward(Ctx<Where>& ctx, const Tensor& cond, const TensorOrScalar& a,
                        const TensorOrScalar& b) {
    ctx.save(cond);
    return where_op(ctx, cond, a, b);
  }
  static void backward(Ctx<Where>& ctx, const Tensor& g) {
    const Tensor cond = ctx.saved(0);
    if (ctx.needs(1)) ctx.grad(1) = where(cond, g, 0.0);
    if (ctx.needs(2)) ctx.grad(2) = where(cond, 0.0, g);
  }
};
COGRAD_OP(Where)

struct WhereMethod {
  static constexpr OpSpec spec{"where",
                               "self, condition, other",
                               kMethod | kElementwise,
                               "self where condition is true, else other; broadcasts.",
                               "T(3, 4), B(3, 4), T(3, 4)",
                               "np.where(condition, self, other)"};
  static Tensor forward(const Tensor& self, const Tensor& cond, const TensorOrScalar& other) {
    return apply<Where>(cond, TensorOrScalar(self), other);
  }
};
COGRAD_OP(WhereMethod)

}  // namespace

Tensor add(const TensorOrScalar& a, const TensorOrScalar& b) { return apply<Add>(a, b, Scalar(1)); }
Tensor sub(const TensorOrScalar& a, const TensorOrScalar& b) { return apply<Sub>(a, b, Scalar(1)); }
Tensor mul(const TensorOrScalar& a, const TensorOrScalar& b) { return apply<Mul>(a, b); }
Tensor div(const TensorOrScalar& a, const TensorOrScalar& b) {
  return apply<Div>(a, b, std::optional<std::string_view>());
}
Tensor pow(const TensorOrScalar& a, const TensorOrScalar& b) { return apply<Pow>(a, b); }
Tensor where(const Tensor& cond, const TensorOrScalar& a, const TensorOrScalar& b) {
  return apply<Where>(cond, a, b);
}

}  // namespace cograd
