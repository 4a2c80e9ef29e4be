// SPDX-License-Identifier: BSD-3-Clause
// Ops that set every element: fill, zero_, and constants for other ops.
#include "ops/compute/elementwise.h"
#include "ops/compute/scalars.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"

namespace cograd {

namespace {

// Returns the tensor to fill. Its elements may share memory, since all get the same value.
Tensor to_fill(CtxBase& ctx, const Tensor& x) {
  return ctx.inplace_target() != nullptr ? *ctx.inplace_target() : ctx.out(x.sizes(), x.dtype());
}

struct Fill {
  static constexpr OpSpec spec{"fill",
                               "input, value",
                               kFunction | kInplace | kElementwise,
                               "Every element set to value.",
                               "T(3, 4), 2.0",
                               "input * 0 + value"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(Ctx<Fill>& ctx, const Tensor& x, const TensorOrScalar& value) {
    if (value.is_tensor())
      COGRAD_CHECK(value.tensor().dim() == 0,
                   "fill_ only supports 0-dimension value tensor but got tensor with ",
                   value.tensor().dim(), " dimensions.");
    else
      check_number("fill_", "value", value.scalar(), x.dtype(), OutOfRange::Raises);
    Tensor out = to_fill(ctx, x);
    if (value.is_tensor())
      raw_copy(out, value.tensor());
    else
      raw_fill(out, value.scalar());
    return out;
  }
  static void batch(BatchCall& c) {
    const Tensor& x = c.arg(0).tensor();
    if (c.arg(1).has_tensor()) {
      const Tensor value = cast(c.arg(1).tensor(), x.dtype());
      box(c.out(), clone(expand(value, x.sizes())));
    } else {
      c.set_result(apply<Fill>(c.physical(x), TensorOrScalar(c.arg(1).scalar())));
    }
  }
  static void backward(Ctx<Fill>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = zeros_like(g);
    if (ctx.needs(1)) ctx.grad(1) = sum_to(g, {});
  }
};
COGRAD_OP(Fill)

struct Zero {
  static constexpr OpSpec spec{"zero", "input", kInplace | kInternal | kElementwise,
                               "Every element set to 0.", "none: in place only"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<Zero>& ctx, const Tensor& x) {
    Tensor out = to_fill(ctx, x);
    raw_fill(out, 0);
    return out;
  }
  static Tensor backward(Ctx<Zero>&, const Tensor& g) { return zeros_like(g); }
};
COGRAD_OP(Zero)

}  // namespace

void fill_(const Tensor& x, Scalar v) { apply_inplace<Fill>(x, {}, x, TensorOrScalar(v)); }
Tensor zeros(IntList sizes, DType t) { return full(sizes, t, 0); }
Tensor ones(IntList sizes, DType t) { return full(sizes, t, 1); }
Tensor full(IntList sizes, DType t, Scalar v) { return raw_full(sizes, t, v); }

}  // namespace cograd
