// SPDX-License-Identifier: BSD-3-Clause
// softmax and log_softmax along one dim.
#include "kernels/nn/softmax.h"

#include "ops/reduce/reduce.h"

namespace cograd {

namespace {

using ForwardFn = void (*)(DType, const void*, void*, int64_t, int64_t, int64_t);
using BackwardFn = void (*)(DType, const void*, const void*, void*, int64_t, int64_t, int64_t);

struct DimState {
  int dim = 0;
};

Tensor run(ForwardFn fn, const Tensor& x, int dim) {
  const Tensor in = raw_contiguous(x);
  const Axis a = axis_of(x.sizes(), dim);
  Tensor y = empty(x.sizes(), x.dtype());
  fn(x.dtype(), in.bytes(), y.bytes(), a.outer, a.n, a.inner);
  return y;
}

Tensor run_backward(BackwardFn fn, const Tensor& g, const Tensor& y, int dim) {
  const Tensor cg = raw_contiguous(g);
  const Tensor cy = raw_contiguous(y);
  const Axis a = axis_of(y.sizes(), dim);
  Tensor gx = empty(y.sizes(), y.dtype());
  fn(y.dtype(), cg.bytes(), cy.bytes(), gx.bytes(), a.outer, a.n, a.inner);
  return gx;
}

// Formulas in place of a kernel compute 16-bit dtypes in float32, as the kernel does.
Tensor widened(const Tensor& x) { return cast(x, wide_dtype(x.dtype())); }

Tensor sum_along(const Tensor& x, int dim) {
  return x.dim() == 0 ? x : sum_mask(x, DimMask{1} << dim, true);
}

Tensor in_dtype(const char* name, const Tensor& x, std::optional<DType> dtype) {
  const Tensor in = cast(x, dtype.value_or(x.dtype()));
  COGRAD_CHECK_NOT_IMPLEMENTED(in.is_floating(), name, "(): not implemented for dtype ",
                               scalar_type_name(in.dtype()), ", expected a floating one");
  return in;
}

struct SoftmaxOp {
  static constexpr OpSpec spec{"softmax", "input, dim", kInternal | kReduction | kExactOut, "",
                               "none: softmax"};
  static constexpr int kSaved = 1;
  using State = DimState;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<SoftmaxOp>& ctx, const Tensor& x, Dim dim) {
    ctx->dim = wrap_dim(dim, x.dim());
    Tensor y = run(kernels::softmax, x, ctx->dim);
    ctx.save_output(y);
    return y;
  }
  static Tensor backward(Ctx<SoftmaxOp>& ctx, const Tensor& g) {
    const Tensor y = widened(ctx.saved(0));
    const Tensor gy = widened(g) * y;
    return cast(gy - y * sum_along(gy, ctx->dim), g.dtype());
  }
  static Tensor backward_fused(Ctx<SoftmaxOp>& ctx, const Tensor& g) {
    return run_backward(kernels::softmax_backward, g, ctx.saved(0), ctx->dim);
  }
};

struct LogSoftmaxOp {
  static constexpr OpSpec spec{"log_softmax", "input, dim", kInternal | kReduction | kExactOut, "",
                               "none: log_softmax"};
  static constexpr int kSaved = 1;
  using State = DimState;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<LogSoftmaxOp>& ctx, const Tensor& x, Dim dim) {
    ctx->dim = wrap_dim(dim, x.dim());
    Tensor y = run(kernels::log_softmax, x, ctx->dim);
    ctx.save_output(y);
    return y;
  }
  static Tensor backward(Ctx<LogSoftmaxOp>& ctx, const Tensor& g) {
    const Tensor wide = widened(g);
    return cast(wide - exp(widened(ctx.saved(0))) * sum_along(wide, ctx->dim), g.dtype());
  }
  static Tensor backward_fused(Ctx<LogSoftmaxOp>& ctx, const Tensor& g) {
    return run_backward(kernels::log_softmax_backward, g, ctx.saved(0), ctx->dim);
  }
};

struct Softmax {
  static constexpr OpSpec spec{"softmax",
                               "input, dim, dtype=None",
                               kFunctional | kOut | kReduction | kExactOut,
                               "exp(input) divided by its sum along dim.",
                               "T(3, 4), 1; T(2, 3, 4), 1; T(), 0",
                               "np.exp(input) / np.exp(input).sum(axis=dim if input.ndim else None,"
                               " keepdims=True)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x, Dim dim, std::optional<DType> dtype) {
    return apply<SoftmaxOp>(in_dtype("softmax", x, dtype), dim);
  }
};
COGRAD_OP(Softmax)

struct LogSoftmax {
  static constexpr OpSpec spec{"log_softmax",
                               "input, dim, dtype=None",
                               kFunctional | kOut | kReduction | kExactOut,
                               "log(softmax(input, dim)), computed without overflow.",
                               "T(3, 4), 1; T(2, 3, 4), 1; T(), 0",
                               "input - np.log(np.exp(input).sum(axis=dim if input.ndim else None, "
                               "keepdims=True))"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x, Dim dim, std::optional<DType> dtype) {
    return apply<LogSoftmaxOp>(in_dtype("log_softmax", x, dtype), dim);
  }
};
COGRAD_OP(LogSoftmax)

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim) { return apply<SoftmaxOp>(x, dim); }
Tensor log_softmax(const Tensor& x, int64_t dim) { return apply<LogSoftmaxOp>(x, dim); }

}  // namespace cograd
