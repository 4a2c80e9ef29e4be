// SPDX-License-Identifier: BSD-3-Clause
// lerp, addcmul and addcdiv.
#include "ops/core/ops.h"
#include "ops/core/raw.h"

namespace cograd {

using kernels::BinaryOp;
using kernels::ElementParams;
using kernels::TernaryOp;

namespace {

ElementParams number(Scalar value) {
  ElementParams e;
  if (value.is_float())
    e.set(0, value.to_double());
  else
    e.set(0, value.to_int());
  return e;
}
Tensor scaled(const Tensor& x, Scalar s) { return s.equals(1) ? x : mul(x, TensorOrScalar(s)); }

void check_lerp(const Tensor& a, const Tensor& b) {
  COGRAD_CHECK(a.dtype() == b.dtype(), "expected dtype ", dtype_name(a.dtype()),
               " for `end` but got dtype ", dtype_name(b.dtype()));
  COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(a.dtype()), "lerp(): not implemented for dtype ",
                               dtype_name(a.dtype()), ", expected a floating one");
}

struct Lerp {
  static constexpr OpSpec spec{"lerp",
                               "input, end, weight",
                               kForms | kElementwise,
                               "input + weight * (end - input), element-wise.",
                               "T(3, 4), T(3, 4), 0.3; T(3, 4), T(4), 0.7; "
                               "T(3, 4), T(3, 4), T(3, 4); T(3, 1), T(4), T(3, 4, lo=0, hi=2)",
                               "input + weight * (end - input)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr int kSaved = 3;
  struct State {
    Scalar weight;
    bool is_number = false;
  };
  static Tensor forward(Ctx<Lerp>& ctx, const Tensor& a, const Tensor& b,
                        const TensorOrScalar& weight) {
    check_lerp(a, b);
    ctx->weight = weight.scalar();
    ctx->is_number = !weight.is_tensor();
    if (!weight.is_tensor()) {
      ElementParams e = number(Scalar(weight.scalar().to_double()));
      return binary_op(ctx, BinaryOp::lerp_scalar, a, b, Rule::Same, "lerp", &e);
    }
    const Tensor& w = weight.tensor();
    COGRAD_CHECK(w.dtype() == a.dtype(), "expected dtype ", dtype_name(a.dtype()),
                 " for `weight` but got dtype ", dtype_name(w.dtype()));
    if (ctx.recording()) ctx.save(ctx.needs(2) ? a : Tensor(), ctx.needs(2) ? b : Tensor(), w);
    return ternary_op(ctx, TernaryOp::lerp, a, b, w, Rule::Same, "lerp");
  }
  static void backward(Ctx<Lerp>& ctx, const Tensor& g) {
    if (ctx->is_number) {
      const double w = ctx->weight.to_double();
      if (ctx.needs(0)) ctx.grad(0) = g * (1 - w);
      if (ctx.needs(1)) ctx.grad(1) = g * w;
      return;
    }
    const Tensor w = ctx.saved(2);
    if (ctx.needs(0)) ctx.grad(0) = g * (1.0 - w);
    if (ctx.needs(1)) ctx.grad(1) = g * w;
    if (ctx.needs(2)) ctx.grad(2) = g * (ctx.saved(1) - ctx.saved(0));
  }
};
COGRAD_OP(Lerp)

struct ValueState {
  Scalar value;
};

struct Addcmul {
  static constexpr OpSpec spec{"addcmul",
                               "input, tensor1, tensor2, *, value=1",
                               kForms | kElementwise,
                               "input + value * tensor1 * tensor2, element-wise.",
                               "T(3, 4), T(3, 4), T(3, 4); T(3, 4), T(4), T(3, 1), value=0.5",
                               "input + value * tensor1 * tensor2"};
  static constexpr DTypeSet kDTypes = kNumericTypes;
  static constexpr int kSaved = 2;
  using State = ValueState;
  static Tensor forward(Ctx<Addcmul>& ctx, const Tensor& x, const Tensor& a, const Tensor& b,
                        Scalar value) {
    COGRAD_CHECK(!value.is_float() || is_floating(x.dtype()) || is_floating(a.dtype()) ||
                     is_floating(b.dtype()),
                 "addcmul(): For integral input tensors, argument value must not be a floating "
                 "point number.");
    ctx->value = value;
    if (ctx.recording()) ctx.save(ctx.needs(2) ? a : Tensor(), ctx.needs(1) ? b : Tensor());
    const ElementParams e = number(value);
    return ternary_op(ctx, TernaryOp::addcmul, x, a, b, Rule::Same, "addcmul", &e);
  }
  static void backward(Ctx<Addcmul>& ctx, const Tensor& g) {
    const Tensor s = scaled(g, ctx->value);
    if (ctx.needs(0)) ctx.grad(0) = g;
    if (ctx.needs(1)) ctx.grad(1) = s * ctx.saved(1);
    if (ctx.needs(2)) ctx.grad(2) = s * ctx.saved(0);
  }
};
COGRAD_OP(Addcmul)

struct Addcdiv {
  static constexpr OpSpec spec{"addcdiv",
                               "input, tensor1, tensor2, *, value=1",
                               kForms | kElementwise,
                               "input + value * tensor1 / tensor2, element-wise.",
                               "T(3, 4), T(3, 4), P(3, 4); T(3, 4), T(4), P(3, 1), value=0.5",
                               "input + value * tensor1 / tensor2"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr int kSaved = 2;
  using State = ValueState;
  static Tensor forward(Ctx<Addcdiv>& ctx, const Tensor& x, const Tensor& a, const Tensor& b,
                        Scalar value) {
    COGRAD_CHECK(is_floating(a.dtype()) || is_floating(b.dtype()),
                 "Integer division with addcdiv is no longer supported: got tensor1 of dtype ",
                 dtype_name(a.dtype()), " and tensor2 of dtype ", dtype_name(b.dtype()),
                 ", expected a floating one");
    ctx->value = value;
    if (ctx.recording()) ctx.save(ctx.needs(2) ? a : Tensor(), b);
    const ElementParams e = number(value);
    return ternary_op(ctx, TernaryOp::addcdiv, x, a, b, Rule::Same, "addcdiv", &e);
  }
  static void backward(Ctx<Addcdiv>& ctx, const Tensor& g) {
    const Tensor b = ctx.saved(1);
    const Tensor s = scaled(g, ctx->value) / b;
    if (ctx.needs(0)) ctx.grad(0) = g;
    if (ctx.needs(1)) ctx.grad(1) = s;
    if (ctx.needs(2)) ctx.grad(2) = -(s * ctx.saved(0) / b);
  }
};
COGRAD_OP(Addcdiv)

}  // namespace

}  // namespace cograd
