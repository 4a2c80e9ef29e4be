// SPDX-License-Identifier: BSD-3-Clause
// Cumulative ops along one dim, and the linear recurrence from which their gradients are built.
#include "kernels/reduce/scan.h"

#include "ops/reduce/reduce.h"

namespace cograd {

namespace {

using ScanFn = void (*)(DType, const void*, void*, int64_t, int64_t, int64_t);

Tensor run_scan(ScanFn fn, const Tensor& x, int dim) {
  const Tensor in = raw_contiguous(x);
  const Axis a = axis_of(x.sizes(), dim);
  Tensor out = empty(x.sizes(), x.dtype());
  fn(x.dtype(), in.bytes(), out.bytes(), a.outer, a.n, a.inner);
  return out;
}

// Sums and products of bools and integers are int64 unless a dtype is given.
DType accumulated_type(const Tensor& x, std::optional<DType> dtype) {
  return dtype.value_or(is_differentiable(x.dtype()) ? x.dtype() : DType::Int64);
}

struct DimState {
  int dim = 0;
};

struct LinearRecurrence {
  static constexpr OpSpec spec{"_linear_recurrence", "a, b=None, dim=-1, reverse=False",
                               kInternal | kReduction,
                               "s[k] = a[k] + b[k] s[k - 1] along dim, or s[k + 1] in reverse.",
                               "none: tested through cumprod and logcumsumexp"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr bool kHolomorphic = true;
  static constexpr int kSaved = 2;
  struct State : DimState {
    bool reverse = false;
    bool scaled = false;  // whether there is a b
  };
  static constexpr BatchRule kBatch = by_aligned_dims();
  static Tensor forward(Ctx<LinearRecurrence>& ctx, const Tensor& a, const Tensor& b, Dim dim,
                        bool reverse) {
    const int d = wrap_dim(dim, a.dim());
    COGRAD_CHECK(!b.defined() || (same(a.sizes(), b.sizes()) && a.dtype() == b.dtype()),
                 "_linear_recurrence(): expected a and b of one shape and dtype, got ",
                 to_string(a.sizes()), " of ", dtype_name(a.dtype()), " and ", to_string(b.sizes()),
                 " of ", dtype_name(b.dtype()));
    ctx->dim = d;
    ctx->reverse = reverse;
    ctx->scaled = b.defined();
    ctx.save(b);
    const Tensor ca = raw_contiguous(a);
    const Tensor cb = b.defined() ? raw_contiguous(b) : Tensor();
    Tensor s = empty(a.sizes(), a.dtype());
    const Axis ax = axis_of(a.sizes(), d);
    kernels::linear_recurrence(a.dtype(), ca.bytes(), cb.defined() ? cb.bytes() : nullptr,
                               s.bytes(), ax.outer, ax.n, ax.inner, reverse);
    if (b.defined()) ctx.save_output(s);
    return s;
  }
  // The adjoint runs in reverse: t[k] = g[k] + b[k + 1] t[k + 1]; db[k] = t[k] s[k - 1].
  static void backward(Ctx<LinearRecurrence>& ctx, const Tensor& g) {
    const int by = ctx->reverse ? 1 : -1;
    // A sum reads nothing that is saved, so its backward can run again without retain_graph.
    const Tensor moved = ctx->scaled ? shift(ctx.saved(0), ctx->dim, by) : Tensor();
    const Tensor t = linear_recurrence(g, moved, ctx->dim, !ctx->reverse);
    if (ctx.needs(0)) ctx.grad(0) = t;
    if (ctx.needs(1)) ctx.grad(1) = t * shift(ctx.saved(1), ctx->dim, -by);
  }
};
COGRAD_OP(LinearRecurrence)

struct Shift {
  static constexpr OpSpec spec{"_shift", "input, dim, by", kInternal | kReduction,
                               "The input shifted by `by` places along dim and filled with zeros.",
                               "none: tested through cumprod"};
  struct State : DimState {
    int by = 0;
  };
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Shift>& ctx, const Tensor& x, Dim dim, int64_t by) {
    const int d = wrap_dim(dim, x.dim());
    const int64_t n = x.dim() == 0 ? 1 : x.size(d);
    by = std::clamp(by, -n, n);
    ctx->dim = d;
    ctx->by = static_cast<int>(by);
    Tensor out = zeros(x.sizes(), x.dtype());
    const int64_t left = n - std::abs(by);
    if (x.dim() == 0 || left <= 0) return out;
    Dims sizes(x.sizes());
    sizes[static_cast<size_t>(d)] = left;
    const int64_t to = std::max<int64_t>(by, 0) * out.stride(d) * out.itemsize();
    const int64_t from = std::max<int64_t>(-by, 0) * x.stride(d) * x.itemsize();
    raw_copy(alias_strided(out, sizes, out.strides(), out.bytes() + to),
             alias_strided(x, sizes, x.strides(), x.bytes() + from));
    return out;
  }
  static Tensor backward(Ctx<Shift>& ctx, const Tensor& g) { return shift(g, ctx->dim, -ctx->by); }
};
COGRAD_OP(Shift)

struct Cumsum {
  static constexpr OpSpec spec{"cumsum",
                               "input, dim, *, dtype=None",
                               kFunctional | kInplace | kOut | kReduction,
                               "Running sum along dim.",
                               "T(3, 4), 1; T(2, 3, 4), -2; T(), 0",
                               "np.cumsum(input, axis=dim) if input.ndim else input"};
  using State = DimState;
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Cumsum>& ctx, const Tensor& x, Dim dim, std::optional<DType> dtype) {
    ctx->dim = wrap_dim(dim, x.dim());
    return run_scan(kernels::cumsum, raw_cast(x, accumulated_type(x, dtype)), ctx->dim);
  }
  static Tensor backward(Ctx<Cumsum>& ctx, const Tensor& g) {
    return linear_recurrence(g, Tensor(), ctx->dim, true);
  }
};
COGRAD_OP(Cumsum)

struct Cumprod {
  static constexpr OpSpec spec{"cumprod",
                               "input, dim, *, dtype=None",
                               kFunctional | kInplace | kOut | kReduction,
                               "Running product along dim.",
                               "T(3, 4), 1; T(2, 3, 4), -2; T(), 0",
                               "np.cumprod(input, axis=dim) if input.ndim else input"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr bool kHolomorphic = true;
  static constexpr int kSaved = 1;
  using State = DimState;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Cumprod>& ctx, const Tensor& x, Dim dim, std::optional<DType> dtype) {
    ctx->dim = wrap_dim(dim, x.dim());
    ctx.save(x);
    return run_scan(kernels::cumprod, raw_cast(x, accumulated_type(x, dtype)), ctx->dim);
  }
  // dy[i]/dx[k] = (x[0]..x[k-1]) (x[k+1]..x[i]), so the sum over i >= k of g[i] times the second
  // factor is s[k] = g[k] + x[k+1] s[k+1]; there is no division, so it is exact with zeros.
  static Tensor backward(Ctx<Cumprod>& ctx, const Tensor& g) {
    const int d = ctx->dim;
    const Tensor x = cast(ctx.saved(0), g.dtype());
    if (x.dim() == 0) return g;
    const Tensor first = zeros_like(x);
    Dims sizes(x.sizes());
    int64_t& n = sizes[static_cast<size_t>(d)];
    n = std::min<int64_t>(n, 1);
    raw_fill(alias_strided(first, sizes, first.strides(), first.bytes()), 1);
    const Tensor before = linear_recurrence(first, shift(x, d, 1), d, false);
    return before * linear_recurrence(g, shift(x, d, -1), d, true);
  }
};
COGRAD_OP(Cumprod)

struct Logcumsumexp {
  static constexpr OpSpec spec{
      "logcumsumexp",
      "input, dim",
      kFunctional | kOut | kReduction | kExactOut,
      "log of the running sum of exp(input) along dim.",
      "T(3, 4), 1; T(2, 3, 4), -2; T(), 0",
      "np.log(np.cumsum(np.exp(input), axis=dim)) if input.ndim else input"};
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static constexpr bool kHolomorphic = true;
  static constexpr int kSaved = 2;
  using State = DimState;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Logcumsumexp>& ctx, const Tensor& x, Dim dim) {
    const int d = wrap_dim(dim, x.dim());
    COGRAD_CHECK_NOT_IMPLEMENTED(is_differentiable(x.dtype()),
                                 "logcumsumexp(): not implemented for dtype ",
                                 scalar_type_name(x.dtype()), ", expected a floating one");
    ctx->dim = d;
    ctx.save(x);
    const auto fn = is_complex(x.dtype()) ? kernels::complex_logcumsumexp : kernels::logcumsumexp;
    Tensor y = run_scan(fn, x, d);
    ctx.save_output(y);
    return y;
  }
  // dx[k] = sum over i >= k of g[i] exp(x[k] - y[i]). In q[k] = g[k] + exp(y[k] - y[k+1]) q[k+1]
  // every factor is at most 1, since y never decreases.
  static Tensor backward(Ctx<Logcumsumexp>& ctx, const Tensor& g) {
    const int d = ctx->dim;
    const Tensor x = ctx.saved(0);
    const Tensor y = ctx.saved(1);
    const Tensor none = isneginf(real(y)), step = y - shift(y, d, -1);
    const Tensor ratio = where(none, 0.0, exp(is_complex(y.dtype()) ? step : clamp_max(step, 0)));
    const Tensor q = linear_recurrence(g, ratio, d, true);
    return q * where(none, 0.0, exp(x - y));
  }
};
COGRAD_OP(Logcumsumexp)

using CumulativeExtreme = void (*)(DType, const void*, void*, int64_t*, int64_t, int64_t, int64_t);

struct ExtremeState : DimState {
  Dims sizes;
};

template <class Op>
std::tuple<Tensor, Tensor> run_extreme(Ctx<Op>& ctx, CumulativeExtreme fn, const Tensor& x,
                                       int64_t dim) {
  const int d = wrap_dim(dim, x.dim());
  const Tensor in = raw_contiguous(x);
  const Axis a = axis_of(x.sizes(), d);
  Tensor values = empty(x.sizes(), x.dtype());
  Tensor indices = empty(x.sizes(), DType::Int64);
  fn(x.dtype(), in.bytes(), values.bytes(), indices.data<int64_t>(), a.outer, a.n, a.inner);
  if (ctx.recording()) {
    ctx->dim = d;
    ctx->sizes = Dims(x.sizes());
    ctx.save(indices);
  }
  return {values, indices};
}

struct Cummax {
  static constexpr OpSpec spec{"cummax",
                               "input, dim",
                               kFunctional | kOut | kReduction,
                               "Running maximum along dim and the index of its last occurrence.",
                               "T(3, 4), 1; T(2, 3, 4), 0; T(), 0",
                               "",
                               "values, indices"};
  static constexpr int kSaved = 1;
  using State = ExtremeState;
  static constexpr BatchRule kBatch = by_dims();
  static constexpr UnsignedRule kUnsigned = ordered({0});
  static std::tuple<Tensor, Tensor> forward(Ctx<Cummax>& ctx, const Tensor& x, Dim dim) {
    return run_extreme(ctx, kernels::cummax, x, dim);
  }
  static void backward(Ctx<Cummax>& ctx, std::span<Tensor> gs) {
    if (gs[0].defined()) ctx.grad(0) = put_along(gs[0], ctx->dim, ctx.saved(0), ctx->sizes);
  }
};
COGRAD_OP(Cummax)

struct Cummin {
  static constexpr OpSpec spec{"cummin",
                               "input, dim",
                               kFunctional | kOut | kReduction,
                               "Running minimum along dim and the index of its last occurrence.",
                               "T(3, 4), 1; T(2, 3, 4), 0; T(), 0",
                               "",
                               "values, indices"};
  static constexpr int kSaved = 1;
  using State = ExtremeState;
  static constexpr BatchRule kBatch = by_dims();
  static constexpr UnsignedRule kUnsigned = ordered({0});
  static std::tuple<Tensor, Tensor> forward(Ctx<Cummin>& ctx, const Tensor& x, Dim dim) {
    return run_extreme(ctx, kernels::cummin, x, dim);
  }
  static void backward(Ctx<Cummin>& ctx, std::span<Tensor> gs) {
    if (gs[0].defined()) ctx.grad(0) = put_along(gs[0], ctx->dim, ctx.saved(0), ctx->sizes);
  }
};
COGRAD_OP(Cummin)

}  // namespace

Tensor linear_recurrence(const Tensor& a, const Tensor& b, int dim, bool reverse) {
  return apply<LinearRecurrence>(a, b, static_cast<int64_t>(dim), reverse);
}
Tensor shift(const Tensor& x, int dim, int by) {
  return apply<Shift>(x, static_cast<int64_t>(dim), static_cast<int64_t>(by));
}

}  // namespace cograd
