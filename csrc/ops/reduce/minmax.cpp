// SPDX-License-Identifier: BSD-3-Clause
// Extreme values over dims (amin, amax, min, max, argmin, argmax), and picking along a dim.
#include "ops/reduce/reduce.h"

#include <bit>

#include "kernels/index/index.h"
#include "kernels/reduce/ties.h"
#include "ops/declare/batch_call.h"

namespace cograd {

using kernels::ReduceOp;

namespace {

template <class Op>
void remember(Ctx<Op>& ctx, const Tensor& x, DimMask mask) {
  if (!ctx.recording()) return;
  ctx->sizes = Dims(x.sizes());
  ctx->mask = mask;
}

// Raises if a result has no elements to reduce: an extreme needs at least one.
void check_not_empty(const char* name, const Tensor& x, DimMask mask, bool dims_given) {
  if (x.numel() > 0) return;
  if (!dims_given || mask == 0)
    detail::fail(ErrorKind::Runtime, name,
                 "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                 "reduction dim with the 'dim' argument.");
  for (int i = 0; i < x.dim(); ++i)
    COGRAD_CHECK_INDEX((mask >> i & 1) == 0 || x.size(i) > 0, name, "(): Expected reduction dim ",
                       i, " to have non-zero size.");
}

Tensor run(ReduceOp op, const Tensor& x, DimMask mask, bool keepdim) {
  const ReducePlan plan(x, mask, keepdim);
  Tensor out = empty(plan.shape, x.dtype());
  kernels::reduce(op, x.dtype(), x.bytes(), plan.geometry(), x.dtype(), out.bytes());
  return out;
}

template <class Op>
Tensor extreme_of(Ctx<Op>& ctx, ReduceOp op, const Tensor& x, DimMask mask, bool keepdim) {
  remember(ctx, x, mask);
  ctx.save(x);
  Tensor y = run(op, x, mask, keepdim);
  ctx.save_output(y);
  return y;
}
template <class Op>
Tensor extreme_over(Ctx<Op>& ctx, ReduceOp op, const Tensor& x, const std::optional<IntList>& dims,
                    bool keepdim) {
  const DimMask mask = dim_mask(x, dims);
  check_not_empty(Op::spec.name, x, mask, dims && !dims->empty());
  return extreme_of(ctx, op, x, mask, keepdim);
}
template <class Op>
Tensor extreme_gradient(Ctx<Op>& ctx, const Tensor& g, bool nan_ties) {
  return split_among_ties(g, ctx.saved(0), ctx.saved(1), ctx->mask, nan_ties);
}

#define COGRAD_EXTREME(Struct, name, kernel, doc_word, numpy)                             \
  struct Struct {                                                                         \
    static constexpr OpSpec spec{name,                                                    \
                                 "input, dim=None, keepdim=False",                        \
                                 kFunctional | kOut | kReduction | kExactOut,             \
                                 doc_word " over dim; ties share the gradient evenly.",   \
                                 "T(3, 4); T(2, 3, 4), (0, 2), True; T(3, 4), 1; T()",    \
                                 numpy "(input, axis=dim, keepdims=keepdim)"};            \
    static constexpr int kSaved = 2;                                                      \
    static constexpr BatchRule kBatch = by_dims();                                        \
    static constexpr UnsignedRule kUnsigned = ordered({0});                               \
    using State = ReduceState;                                                            \
    static Tensor forward(Ctx<Struct>& ctx, const Tensor& x, std::optional<DimList> dims, \
                          bool keepdim) {                                                 \
      return extreme_over(ctx, kernel, x, dims, keepdim);                                 \
    }                                                                                     \
    static Tensor backward(Ctx<Struct>& ctx, const Tensor& g) {                           \
      return extreme_gradient(ctx, g, false);                                             \
    }                                                                                     \
  };                                                                                      \
  COGRAD_OP(Struct)
COGRAD_EXTREME(Amax, "amax", ReduceOp::Max, "Largest value", "np.amax")
COGRAD_EXTREME(Amin, "amin", ReduceOp::Min, "Smallest value", "np.amin")
#undef COGRAD_EXTREME

struct Aminmax {
  static constexpr OpSpec spec{"aminmax",
                               "input, *, dim=None, keepdim=False",
                               kFunctional | kOut | kReduction,
                               "Smallest and largest value over dim.",
                               "T(3, 4); T(3, 4), dim=1, keepdim=True",
                               "",
                               "min, max"};
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static std::tuple<Tensor, Tensor> forward(const Tensor& x, std::optional<Dim> dim, bool keepdim) {
    const int64_t d = dim.value_or(0);
    std::optional<IntList> dims;
    if (dim) dims = IntList(&d, 1);
    check_not_empty("aminmax", x, dim_mask(x, dims), dim.has_value());
    return {apply<Amin>(x, dims, keepdim), apply<Amax>(x, dims, keepdim)};
  }
};
COGRAD_OP(Aminmax)

template <class Op>
std::tuple<Tensor, Tensor> extreme_along(Ctx<Op>& ctx, bool largest, const Tensor& x, int64_t dim,
                                         bool keepdim) {
  const int d = wrap_dim(dim, x.dim());
  const DimMask mask = (DimMask{1} << d) & all_dims(x.dim());
  check_not_empty(Op::spec.name, x, mask, true);
  const ReducePlan plan(x, mask, keepdim);
  Tensor values = empty(plan.shape, x.dtype());
  Tensor indices = empty(plan.shape, DType::Int64);
  kernels::reduce_extreme(largest, x.dtype(), x.bytes(), plan.geometry(), values.bytes(),
                          indices.data<int64_t>());
  if (ctx.recording()) {
    ctx->sizes = Dims(x.sizes());
    ctx->dim = d;
    ctx.save(indices);
  }
  return {values, indices};
}

struct PickState {
  Dims sizes;
  int dim = 0;
};

// Not in the table: min() and max() of each sample, a slice along dim 0.
template <bool largest>
struct ExtremeOfSamples {
  static constexpr OpSpec spec{largest ? "max" : "min", "input", kInternal | kReduction,
                               "The extreme value of each slice along dim 0.",
                               "none: max() and min() under vmap"};
  static constexpr int kSaved = 2;
  static constexpr UnsignedRule kUnsigned = ordered({0});
  using State = ReduceState;
  static void batch(BatchCall& c) { merge_batch_dim<ExtremeOfSamples>(c); }
  static Tensor forward(Ctx<ExtremeOfSamples>& ctx, const Tensor& x) {
    const DimMask mask = all_dims(x.dim()) & ~DimMask{1};
    if (x.size(0) > 0) check_not_empty(spec.name, x, mask, false);
    return extreme_of(ctx, largest ? ReduceOp::Max : ReduceOp::Min, x, mask, false);
  }
  static Tensor backward(Ctx<ExtremeOfSamples>& ctx, const Tensor& g) {
    return extreme_gradient(ctx, g, true);
  }
};

#define COGRAD_MINMAX(Prefix, name, largest, doc_word, numpy, pairwise)                        \
  struct Prefix##All {                                                                         \
    static constexpr OpSpec spec{name,                                                         \
                                 "input",                                                      \
                                 kFunctional | kReduction,                                     \
                                 doc_word " value of all; ties share the gradient evenly.",    \
                                 "T(3, 4); T()",                                               \
                                 numpy "(input)"};                                             \
    static constexpr const char* kNodeName = #Prefix "Backward1";                              \
    static constexpr int kSaved = 2;                                                           \
    static constexpr UnsignedRule kUnsigned = ordered({0});                                    \
    using State = ReduceState;                                                                 \
    static void batch(BatchCall& c) {                                                          \
      c.set_result(apply<ExtremeOfSamples<largest>>(c.physical(c.arg(0).tensor())));           \
    }                                                                                          \
    static Tensor forward(Ctx<Prefix##All>& ctx, const Tensor& x) {                            \
      check_not_empty(name, x, all_dims(x.dim()), false);                                      \
      const ReduceOp op = largest ? ReduceOp::Max : ReduceOp::Min;                             \
      return extreme_of(ctx, op, x, all_dims(x.dim()), false);                                 \
    }                                                                                          \
    static Tensor backward(Ctx<Prefix##All>& ctx, const Tensor& g) {                           \
      return extreme_gradient(ctx, g, true);                                                   \
    }                                                                                          \
  };                                                                                           \
  COGRAD_OP(Prefix##All)                                                                       \
  struct Prefix##Pair {                                                                        \
    static constexpr OpSpec spec{name,                                                         \
                                 "input, other",                                               \
                                 kFunctional | kOut | kReduction,                              \
                                 doc_word " of two tensors, element-wise.",                    \
                                 "T(3, 4), T(3, 4); T(3, 1), T(4)",                            \
                                 "np." #pairwise "(input, other)"};                            \
    static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;                            \
    static Tensor forward(const Tensor& a, const Tensor& b) { return pairwise(a, b); }         \
  };                                                                                           \
  COGRAD_OP(Prefix##Pair)                                                                      \
  struct Prefix##Dim {                                                                         \
    static constexpr OpSpec spec{name,                                                         \
                                 "input, dim, keepdim=False",                                  \
                                 kFunctional | kOut | kReduction,                              \
                                 doc_word                                                      \
                                 " value along dim and its index, which gets the "             \
                                 "gradient.",                                                  \
                                 "T(3, 4), 1; T(2, 3, 4), 0, True; T(), 0",                    \
                                 "",                                                           \
                                 "values, indices"};                                           \
    static constexpr int kSaved = 1;                                                           \
    static constexpr BatchRule kBatch = by_dims();                                             \
    static constexpr UnsignedRule kUnsigned = ordered({0});                                    \
    using State = PickState;                                                                   \
    static std::tuple<Tensor, Tensor> forward(Ctx<Prefix##Dim>& ctx, const Tensor& x, Dim dim, \
                                              bool keepdim) {                                  \
      return extreme_along(ctx, largest, x, dim, keepdim);                                     \
    }                                                                                          \
    static void backward(Ctx<Prefix##Dim>& ctx, std::span<Tensor> gs) {                        \
      if (gs[0].defined()) ctx.grad(0) = put_along(gs[0], ctx->dim, ctx.saved(0), ctx->sizes); \
    }                                                                                          \
  };                                                                                           \
  COGRAD_OP(Prefix##Dim)
COGRAD_MINMAX(Max, "max", true, "Largest", "np.max", maximum)
COGRAD_MINMAX(Min, "min", false, "Smallest", "np.min", minimum)
#undef COGRAD_MINMAX

Tensor position(const char* name, bool largest, const Tensor& x, std::optional<int64_t> dim,
                bool keepdim) {
  DimMask mask = all_dims(x.dim());
  if (dim) mask &= DimMask{1} << wrap_dim(*dim, x.dim());
  if (!dim)
    COGRAD_CHECK_INDEX(x.numel() > 0, name,
                       "(): Expected reduction dim to be specified for input.numel() == 0.");
  check_not_empty(name, x, mask, true);
  const ReducePlan plan(x, mask, keepdim);
  Tensor out = empty(plan.shape, DType::Int64);
  kernels::reduce_extreme(largest, x.dtype(), x.bytes(), plan.geometry(), nullptr,
                          out.data<int64_t>());
  return out;
}

struct Argmax {
  static constexpr OpSpec spec{"argmax",
                               "input, dim=None, keepdim=False",
                               kFunctional | kOut | kNondiff | kReduction | kExactOut,
                               "Index of the largest value along dim, or in the flattened input.",
                               "T(3, 4); T(2, 3, 4), 1; T(2, 3, 4), -1, True",
                               "np.argmax(input, axis=dim, keepdims=keepdim)"};
  static constexpr BatchRule kBatch = by_dims();
  static constexpr UnsignedRule kUnsigned = ordered({});
  static Tensor forward(Ctx<Argmax>&, const Tensor& x, std::optional<Dim> dim, bool keepdim) {
    return position("argmax", true, x, dim, keepdim);
  }
};
COGRAD_OP(Argmax)

struct Argmin {
  static constexpr OpSpec spec{"argmin",
                               "input, dim=None, keepdim=False",
                               kFunctional | kOut | kNondiff | kReduction | kExactOut,
                               "Index of the smallest value along dim, or in the flattened input.",
                               "T(3, 4); T(2, 3, 4), 1; T(2, 3, 4), -1, True",
                               "np.argmin(input, axis=dim, keepdims=keepdim)"};
  static constexpr BatchRule kBatch = by_dims();
  static constexpr UnsignedRule kUnsigned = ordered({});
  static Tensor forward(Ctx<Argmin>&, const Tensor& x, std::optional<Dim> dim, bool keepdim) {
    return position("argmin", false, x, dim, keepdim);
  }
};
COGRAD_OP(Argmin)

// Returns the number of picked elements per row.
int64_t picks(const Axis& a, const Tensor& index) {
  const int64_t rows = a.outer * a.inner;
  return rows == 0 ? 0 : index.numel() / rows;
}

// Not in the table: callers guarantee that the indices are valid.
struct TakeAlong {
  static constexpr OpSpec spec{"_take_along", "input, dim, index", kInternal | kIndex,
                               "Elements of the input along dim, by checked index.",
                               "none: used by ops that return indices"};
  static constexpr int kSaved = 1;
  using State = PickState;
  static constexpr BatchRule kBatch = by_aligned_dims();
  static Tensor forward(Ctx<TakeAlong>& ctx, const Tensor& x, Dim dim, const Tensor& index) {
    if (ctx.recording()) {
      ctx->sizes = Dims(x.sizes());
      ctx->dim = static_cast<int>(dim);
      ctx.save(index);
    }
    const Tensor in = raw_contiguous(x);
    const Tensor at = raw_contiguous(index);
    Tensor out = empty(index.sizes(), x.dtype());
    const Axis a = axis_of(x.sizes(), static_cast<int>(dim));
    kernels::take_along(x.itemsize(), in.bytes(), a.outer, a.n, a.inner, at.data<int64_t>(),
                        picks(a, at), out.bytes());
    return out;
  }
  static void backward(Ctx<TakeAlong>& ctx, const Tensor& g) {
    ctx.grad(0) = put_along(g, ctx->dim, ctx.saved(0), ctx->sizes);
  }
};

struct PutAlong {
  static constexpr OpSpec spec{"_put_along", "grad, dim, index, size", kInternal | kIndex,
                               "Zeros with the gradient added at the indices along dim.",
                               "none: gradient of ops that return indices"};
  static constexpr int kSaved = 1;
  struct State {
    int dim = 0;
  };
  static constexpr BatchRule kBatch = by_shaped_aligned_dims();
  static Tensor forward(Ctx<PutAlong>& ctx, const Tensor& g, Dim dim, const Tensor& index,
                        Shape sizes) {
    ctx->dim = static_cast<int>(dim);
    ctx.save(index);
    const Tensor in = raw_contiguous(g);
    const Tensor at = raw_contiguous(index);
    Tensor out = zeros(sizes, g.dtype());
    const Axis a = axis_of(sizes, static_cast<int>(dim));
    kernels::add_along(g.dtype(), in.bytes(), a.outer, a.n, a.inner, at.data<int64_t>(),
                       picks(a, at), out.bytes());
    return out;
  }
  static void backward(Ctx<PutAlong>& ctx, const Tensor& g) {
    ctx.grad(0) = take_along(g, ctx->dim, ctx.saved(0));
  }
};

// Computes split_among_ties in two passes if no graph is recorded and the reduced dims are
// adjacent; otherwise returns an undefined tensor.
Tensor fused_split(const Tensor& g, const Tensor& x, const Tensor& y, DimMask mask, bool nan_ties) {
  const bool wide = x.dtype() == DType::Float32 || x.dtype() == DType::Float64;
  const int first = std::countr_zero(mask), last = static_cast<int>(std::bit_width(mask));
  if (differentiable({&g, &x, &y}) || !wide || g.dtype() != x.dtype() || y.dtype() != x.dtype() ||
      mask == 0 || last - first != std::popcount(mask))
    return Tensor();
  const auto length = [&](int from, int to) {
    int64_t n = 1;
    for (int d = from; d < to; ++d) n = checked_mul(n, x.size(d));
    return n;
  };
  const Tensor in = raw_contiguous(x), best = raw_contiguous(y), share = raw_contiguous(g);
  Tensor out = empty(x.sizes(), x.dtype());
  kernels::split_ties(x.dtype(), in.bytes(), length(0, first), length(first, last),
                      length(last, x.dim()), best.bytes(), share.bytes(), nan_ties, out.bytes());
  return out;
}

}  // namespace

Tensor take_along(const Tensor& x, int dim, const Tensor& index) {
  return apply<TakeAlong>(x, static_cast<int64_t>(dim), index);
}
Tensor put_along(const Tensor& g, int dim, const Tensor& index, IntList sizes) {
  return apply<PutAlong>(g, static_cast<int64_t>(dim), index, sizes);
}
Tensor split_among_ties(const Tensor& g, const Tensor& x, const Tensor& y, DimMask mask,
                        bool nan_ties) {
  if (Tensor gx = fused_split(g, x, y, mask, nan_ties); gx.defined()) return gx;
  const Tensor best = expand_reduced(y, x.sizes(), mask);
  Tensor equal = eq(x, best);
  if (nan_ties) equal = logical_or(equal, logical_and(isnan(x), isnan(best)));
  const Tensor ties = cast(equal, g.dtype());
  const Tensor share = ties / sum_mask(ties, mask, true);
  return expand_reduced(g, x.sizes(), mask) * share;
}

}  // namespace cograd
