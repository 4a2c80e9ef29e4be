// SPDX-License-Identifier: BSD-3-Clause
// Sums, means, products and logical reductions over any dims.
#include "ops/reduce/reduce.h"
#include "ops/compute/host_values.h"
#include "ops/declare/autocast.h"
#include "ops/declare/batch_call.h"

#include <bit>
#include <cstring>

#include "kernels/reduce/scan.h"
#include "ops/declare/view.h"

namespace cograd {

using kernels::ReduceOp;

DimMask dim_mask(const Tensor& x, const std::optional<IntList>& dims) {
  if (!dims || dims->empty()) return all_dims(x.dim());
  DimMask mask = 0;
  for (int64_t d : *dims) {
    const int at = wrap_dim(d, x.dim());
    const DimMask bit = DimMask{1} << at;
    COGRAD_CHECK((mask & bit) == 0, "dim ", at, " appears multiple times in the list of dims");
    mask |= bit;
  }
  return mask & all_dims(x.dim());
}

Tensor ratio_or_zero(const Tensor& a, const Tensor& b) {
  const Tensor none = eq(b, 0);
  return where(none, 0.0, a / where(none, 1.0, b));
}

Dims mask_dims(DimMask mask) {
  Dims out;
  for (int i = 0; mask != 0; ++i, mask >>= 1)
    if ((mask & 1) != 0) out.push_back(i);
  return out;
}

ReducePlan::ReducePlan(const Tensor& x, DimMask mask, bool keepdim) {
  const bool all = mask == all_dims(x.dim());
  if (all && x.is_contiguous()) {
    count = x.numel();
    reduced.push_back(count);
    reduced_steps.push_back(x.itemsize());
    if (keepdim) shape.resize(static_cast<size_t>(x.dim()), 1);
    return;
  }
  for (int i = 0; i < x.dim(); ++i) {
    const int64_t step = scaled_stride(x.stride(i), x.itemsize());
    if ((mask >> i & 1) != 0) {
      count = checked_mul(count, x.size(i));
      reduced.push_back(x.size(i));
      reduced_steps.push_back(step);
      if (keepdim) shape.push_back(1);
    } else {
      kept.push_back(x.size(i));
      kept_steps.push_back(step);
      shape.push_back(x.size(i));
    }
  }
}

Axis axis_of(IntList sizes, int dim) {
  Axis a;
  if (sizes.empty()) return a;
  const auto d = static_cast<size_t>(dim);
  a.outer = product(sizes.first(d));
  a.n = sizes[d];
  a.inner = product(sizes.subspan(d + 1));
  return a;
}

namespace {

Tensor run(ReduceOp op, const Tensor& x, DimMask mask, bool keepdim, DType out_type);

// Computes products of the reduced elements after moving these to the last dims.
Tensor complex_product(const Tensor& x, DimMask mask, bool keepdim) {
  const ReducePlan plan(x, mask, keepdim);
  Dims order;
  for (const bool reduced : {false, true})
    for (int i = 0; i < x.dim(); ++i)
      if (((mask >> i & 1) != 0) == reduced) order.push_back(i);
  const Tensor rows = raw_contiguous(permute(x, order));
  const int64_t n = plan.count, outer = product(plan.shape);
  const Tensor running = empty(rows.sizes(), x.dtype());
  kernels::cumprod(x.dtype(), rows.bytes(), running.bytes(), outer, n, 1);
  Tensor out = raw_full(plan.shape, x.dtype(), 1);
  if (n == 0) return out;
  Dims steps = contiguous_strides(plan.shape);
  for (int64_t& step : steps) step *= n;
  raw_copy(out, alias_strided(running, plan.shape, steps,
                              running.bytes() + (n - 1) * running.itemsize()));
  return out;
}

// Reduces complex elements; a sum is a sum over real parts, and the dim of the two parts is kept.
Tensor run_complex(ReduceOp op, const Tensor& x, DimMask mask, bool keepdim, DType out_type) {
  const GradGuard no_grad(false);
  const Tensor values = detach(x);
  if (op == ReduceOp::Prod) return complex_product(values, mask, keepdim);
  if (op != ReduceOp::Sum && op != ReduceOp::Mean)
    return run(op, ne(values, 0), mask, keepdim, out_type);
  const Tensor parts = parts_of_complex(values);
  const ReducePlan plan(parts, mask, keepdim);
  Tensor out = empty(IntList(plan.shape).first(plan.shape.size() - 1), x.dtype());
  if (mask == all_dims(x.dim()) && x.is_contiguous()) {
    Complex<double> sum = kernels::complex_sum(x.dtype(), values.bytes(), values.numel());
    if (op == ReduceOp::Mean) sum = sum / static_cast<double>(x.numel());
    raw_fill(out, sum);
    return out;
  }
  kernels::reduce(op, parts.dtype(), parts.bytes(), plan.geometry(), parts.dtype(), out.bytes());
  return out;
}

Tensor run(ReduceOp op, const Tensor& x, DimMask mask, bool keepdim, DType out_type) {
  if (is_complex(x.dtype())) return run_complex(op, x, mask, keepdim, out_type);
  const ReducePlan plan(x, mask, keepdim);
  Tensor out = empty(plan.shape, out_type);
  kernels::reduce(op, x.dtype(), x.bytes(), plan.geometry(), out_type, out.bytes());
  return out;
}

// Returns the input of a sum or product in the requested dtype, unless accumulation widens it
// anyway.
Tensor accumulated(const Tensor& x, DType t) {
  if (x.dtype() == t) return x;
  if (!is_differentiable(x.dtype()) && !is_differentiable(t) && t != DType::Bool) return x;
  return raw_cast(x, t);
}
DType sum_dtype(const Tensor& x, std::optional<DType> asked) {
  if (asked) return *asked;
  return is_differentiable(x.dtype()) ? x.dtype() : DType::Int64;
}

template <class Op>
void remember(Ctx<Op>& ctx, const Tensor& x, DimMask mask) {
  if (!ctx.recording()) return;
  ctx->sizes = Dims(x.sizes());
  ctx->mask = mask;
}

struct ExpandReduced {
  static constexpr OpSpec spec{"_expand_reduced", "input, size, mask", kInternal | kShape,
                               "A reduced tensor viewed at its full size.",
                               "none: gradient of the reductions"};
  struct State {
    DimMask mask = 0;
    bool keepdim = false;
  };
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<ExpandReduced>& ctx, const Tensor& g, Shape sizes, int64_t bits) {
    const auto mask = static_cast<DimMask>(bits);
    const bool keepdim = g.dim() == static_cast<int>(sizes.size());
    ctx->mask = mask;
    ctx->keepdim = keepdim;
    Dims strides(sizes.size());
    int from = 0;
    bool fits = true;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const bool reduced = (mask >> i & 1) != 0, taken = !reduced || keepdim;
      fits = fits && sizes[i] >= 0 && (!taken || from < g.dim());
      if (!fits) break;
      if (taken) fits = g.size(from) == (reduced ? 1 : sizes[i]);
      if (!reduced) strides[i] = g.stride(from);
      if (taken) ++from;
    }
    COGRAD_CHECK(fits && from == g.dim(), "_expand_reduced(): a tensor of shape ",
                 to_string(g.sizes()), " is not a reduction of a tensor of shape ",
                 to_string(sizes));
    product(sizes);  // raises if the number of elements overflows
    return make_view(g, sizes, strides, g.bytes());
  }
  static void batch(BatchCall& c) {
    Tensor g = c.arg(0).tensor();
    const IntList sizes = c.arg(1).ints();
    const auto mask = static_cast<DimMask>(c.arg(2).integer());
    if (g.dim() < static_cast<int>(sizes.size()))
      for (size_t i = 0; i < sizes.size(); ++i)
        if ((mask >> i & 1) != 0) g = unsqueeze(g, static_cast<int64_t>(i));
    box(c.out(), expand(g, sizes));
  }
  static Tensor backward(Ctx<ExpandReduced>& ctx, const Tensor& g) {
    return sum_mask(g, ctx->mask, ctx->keepdim);
  }
};
COGRAD_OP(ExpandReduced)

struct Sum {
  static constexpr OpSpec spec{
      "sum",
      "input, dim=None, keepdim=False, *, dtype=None",
      kFunctional | kOut | kReduction,
      "Sum over dim (an int, a tuple or None for all); integers are summed in int64.",
      "T(3, 4); T(2, 3, 4), 1; T(2, 3, 4), (0, -1), True; T(); I(3, 4), 0",
      "np.sum(input, axis=dim, keepdims=keepdim)"};
  struct State : ReduceState {
    bool over_dims = false;
  };
  // torch distinguishes a full sum from a sum over dims by the node's name.
  static constexpr DTypeSet kDTypes = kEveryType;
  static std::string node_name(const State& s) {
    return s.over_dims ? "SumBackward1" : "SumBackward0";
  }
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Sum>& ctx, const Tensor& x, std::optional<DimList> dims, bool keepdim,
                        std::optional<DType> dtype) {
    const DimMask mask = dim_mask(x, dims);
    const DType t = sum_dtype(x, dtype);
    ctx->over_dims = dims.has_value();
    remember(ctx, x, mask);
    return run(ReduceOp::Sum, accumulated(x, t), mask, keepdim, t);
  }
  static Tensor backward(Ctx<Sum>& ctx, const Tensor& g) {
    return expand_reduced(g, ctx->sizes, ctx->mask);
  }
};
COGRAD_OP(Sum)

struct Mean {
  static constexpr OpSpec spec{
      "mean",
      "input, dim=None, keepdim=False, *, dtype=None",
      kFunctional | kOut | kReduction,
      "Mean over dim (an int, a tuple or None for all) of a floating tensor.",
      "T(3, 4); T(2, 3, 4), 1; T(2, 3, 4), (0, -1), True; T()",
      "np.mean(input, axis=dim, keepdims=keepdim)"};
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  struct State : ReduceState {
    double count = 1;
    bool over_dims = false;
  };
  static std::string node_name(const State& s) {
    return s.over_dims ? "MeanBackward1" : "MeanBackward0";
  }
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Mean>& ctx, const Tensor& x, std::optional<DimList> dims, bool keepdim,
                        std::optional<DType> dtype) {
    const DType t = dtype.value_or(x.dtype());
    COGRAD_CHECK(
        is_differentiable(t), "mean(): could not infer output dtype. ",
        dtype ? "Optional" : "Input",
        " dtype must be either a floating point or complex dtype. Got: ", scalar_type_name(t));
    const DimMask mask = dim_mask(x, dims);
    ctx->over_dims = dims.has_value();
    remember(ctx, x, mask);
    const Tensor in = accumulated(x, t);
    ctx->count = static_cast<double>(ReducePlan(in, mask, keepdim).count);
    return run(ReduceOp::Mean, in, mask, keepdim, t);
  }
  static Tensor backward(Ctx<Mean>& ctx, const Tensor& g) {
    return expand_reduced(g / ctx->count, ctx->sizes, ctx->mask);
  }
};
COGRAD_OP(Mean)

struct NansumOp {
  static constexpr OpSpec spec{"nansum", "input, dim, keepdim, dtype", kInternal | kReduction, "",
                               "none: nansum"};
  static constexpr int kSaved = 1;
  using State = ReduceState;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<NansumOp>& ctx, const Tensor& x, std::optional<DimList> dims,
                        bool keepdim, DType t) {
    const DimMask mask = dim_mask(x, dims);
    remember(ctx, x, mask);
    GradGuard no_grad(false);
    const Tensor none = isnan(x);
    ctx.save(none);
    return run(ReduceOp::Sum, where(none, 0.0, x), mask, keepdim, t);
  }
  // Multiplies by the mask, so that an infinite g, as from a mean of nothing, becomes NaN.
  static Tensor backward(Ctx<NansumOp>& ctx, const Tensor& g) {
    return expand_reduced(g, ctx->sizes, ctx->mask) * logical_not(ctx.saved(0));
  }
};

struct Nansum {
  static constexpr OpSpec spec{"nansum",
                               "input, dim=None, keepdim=False, *, dtype=None",
                               kFunctional | kOut | kReduction,
                               "Sum over dim, with NaN counted as 0.",
                               "T(3, 4); T(2, 3, 4), (0, 2), True",
                               "np.nansum(input, axis=dim, keepdims=keepdim)"};
  static Tensor forward(const Tensor& x, std::optional<DimList> dims, bool keepdim,
                        std::optional<DType> dtype) {
    if (!is_floating(x.dtype())) return apply<Sum>(x, dims, keepdim, dtype);
    const DType t = sum_dtype(x, dtype);
    return apply<NansumOp>(cast(x, t), dims, keepdim, t);
  }
};
COGRAD_OP(Nansum)

struct Nanmean {
  static constexpr OpSpec spec{"nanmean",
                               "input, dim=None, keepdim=False, *, dtype=None",
                               kFunctional | kOut | kReduction,
                               "Mean over dim of the elements that are not NaN.",
                               "T(3, 4); T(2, 3, 4), (0, 2), True",
                               "np.nanmean(input, axis=dim, keepdims=keepdim)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x, std::optional<DimList> dims, bool keepdim,
                        std::optional<DType> dtype) {
    COGRAD_CHECK(is_floating(x.dtype()),
                 "nanmean(): expected input to have floating point or complex dtype but got ",
                 scalar_type_name(x.dtype()));
    const Tensor there = logical_not(isnan(x));
    return div(apply<Nansum>(x, dims, keepdim, dtype),
               apply<Sum>(there, dims, keepdim, std::optional<DType>()));
  }
};
COGRAD_OP(Nanmean)

bool has_zero(const Tensor& x) {
  const Tensor none = run(ReduceOp::All, x, all_dims(x.dim()), false, DType::Bool);
  return host_values_or<uint8_t>(none, 1)[0] == 0;
}

struct ProdOp {
  static constexpr OpSpec spec{"prod", "input, dims, keepdim, dtype", kInternal | kReduction, "",
                               "none: prod"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr bool kHolomorphic = true;
  static constexpr int kSaved = 2;
  struct State : ReduceState {
    bool over_dim = false;
  };
  static std::string node_name(const State& s) {
    return s.over_dim ? "ProdBackward1" : "ProdBackward0";
  }
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<ProdOp>& ctx, const Tensor& x, DimList dims, bool keepdim, DType t) {
    const DimMask mask = dim_mask(x, dims);
    ctx->over_dim = !dims.empty();
    remember(ctx, x, mask);
    ctx.save(x);
    Tensor y = run(ReduceOp::Prod, x, mask, keepdim, t);
    ctx.save_output(y);
    return y;
  }
  static Tensor backward(Ctx<ProdOp>& ctx, const Tensor& g) {
    const Tensor x = ctx.saved(0);
    const Tensor whole = expand_reduced(g, ctx->sizes, ctx->mask);
    if (x.dim() == 0) return whole;
    if (has_zero(x)) return whole * product_of_others(x, ctx->mask);
    return whole * expand_reduced(ctx.saved(1), ctx->sizes, ctx->mask) / x;
  }
};

Tensor prod_over(const Tensor& x, IntList dims, bool keepdim, std::optional<DType> dtype) {
  const DType t = sum_dtype(x, dtype);
  const bool in_place = x.dtype() == t || (!is_differentiable(x.dtype()) && !is_differentiable(t));
  return apply<ProdOp>(in_place && t != DType::Bool ? x : cast(x, t), dims, keepdim, t);
}

struct ProdAll {
  static constexpr OpSpec spec{"prod",
                               "input, *, dtype=None",
                               kFunctional | kReduction | kAutocastWide,
                               "Product of all elements.",
                               "T(3, 2); T()",
                               "np.prod(input)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& x, std::optional<DType> dtype) {
    return prod_over(x, {}, false, dtype);
  }
};
COGRAD_OP(ProdAll)

struct Prod {
  static constexpr OpSpec spec{"prod",
                               "input, dim, keepdim=False, *, dtype=None",
                               kFunctional | kOut | kReduction | kAutocastWide,
                               "Product over one dim.",
                               "T(3, 4), 1; T(2, 3, 2), 0, True",
                               "np.prod(input, axis=dim, keepdims=keepdim)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& x, Dim dim, bool keepdim, std::optional<DType> dtype) {
    return prod_over(x, {&dim.value, 1}, keepdim, dtype);
  }
};
COGRAD_OP(Prod)

// Reduces to truth values. As in torch, an empty list of dims reduces none of them here.
Tensor logical(ReduceOp op, const Tensor& x, const std::optional<IntList>& dims, bool keepdim) {
  const DType t = x.dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool;
  return run(op, x, dims && dims->empty() ? 0 : dim_mask(x, dims), keepdim, t);
}

struct All {
  static constexpr OpSpec spec{"all",
                               "input, dim=None, keepdim=False",
                               kFunctional | kOut | kNondiff | kReduction,
                               "True where all elements over dim are non-zero.",
                               "B(3, 4); B(2, 3, 4), (0, 2), True; I(3, 4, hi=2), 0",
                               "np.all(input, axis=dim, keepdims=keepdim)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<All>&, const Tensor& x, std::optional<DimList> dims, bool keepdim) {
    return logical(ReduceOp::All, x, dims, keepdim);
  }
};
COGRAD_OP(All)

struct Any {
  static constexpr OpSpec spec{"any",
                               "input, dim=None, keepdim=False",
                               kFunctional | kOut | kNondiff | kReduction,
                               "True where any element over dim is non-zero.",
                               "B(3, 4); B(2, 3, 4), (0, 2), True; I(3, 4, hi=2), 0",
                               "np.any(input, axis=dim, keepdims=keepdim)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Any>&, const Tensor& x, std::optional<DimList> dims, bool keepdim) {
    return logical(ReduceOp::Any, x, dims, keepdim);
  }
};
COGRAD_OP(Any)

struct CountNonzero {
  static constexpr OpSpec spec{"count_nonzero",
                               "input, dim=None",
                               kFunctional | kNondiff | kReduction,
                               "Number of non-zero elements over dim.",
                               "I(3, 4, hi=2); I(2, 3, 4, hi=2), (0, 2)",
                               "np.count_nonzero(input, axis=dim)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<CountNonzero>&, const Tensor& x, std::optional<DimList> dims) {
    return run(ReduceOp::CountNonzero, x, dim_mask(x, dims), false, DType::Int64);
  }
};
COGRAD_OP(CountNonzero)

struct LogSumExpOp {
  static constexpr OpSpec spec{"logsumexp", "input, dim, keepdim", kInternal | kReduction, "",
                               "none: logsumexp"};
  static constexpr DTypeSet kDTypes = kAllTypes | kComplexTypes;
  static constexpr bool kHolomorphic = true;
  static constexpr int kSaved = 2;
  using State = ReduceState;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<LogSumExpOp>& ctx, const Tensor& x, DimList dims, bool keepdim) {
    const DimMask mask = dim_mask(x, dims);
    remember(ctx, x, mask);
    ctx.save(x);
    Tensor y = is_complex(x.dtype()) ? of_complex(x, mask, keepdim)
                                     : run(ReduceOp::LogSumExp, x, mask, keepdim, x.dtype());
    ctx.save_output(y);
    return y;
  }
  // Subtracts the largest real part where it is finite, to avoid overflow.
  static Tensor of_complex(const Tensor& x, DimMask mask, bool keepdim) {
    if (x.numel() == 0) return log(sum_mask(x, mask, keepdim));
    const Tensor parts = raw_contiguous(real(x));
    const auto most = [&](bool keep) {
      const Tensor m = run(ReduceOp::Max, parts, mask, keep, parts.dtype());
      return where(isfinite(m), m, 0.0);
    };
    return log(sum_mask(exp(x - most(true)), mask, keepdim)) + most(keepdim);
  }
  static Tensor backward(Ctx<LogSumExpOp>& ctx, const Tensor& g) {
    const Tensor y = expand_reduced(ctx.saved(1), ctx->sizes, ctx->mask);
    return expand_reduced(g, ctx->sizes, ctx->mask) * exp(ctx.saved(0) - y);
  }
};

struct LogSumExp {
  static constexpr OpSpec spec{
      "logsumexp",
      "input, dim, keepdim=False",
      kFunctional | kOut | kReduction,
      "log(sum(exp(input))) over dim, without overflow.",
      "T(3, 4), 1; T(2, 3, 4), (0, 2), True; T(), 0",
      "np.log(np.sum(np.exp(input), axis=dim if input.ndim else None, keepdims=keepdim))"};
  static constexpr DTypeSet kDTypes = kAllTypes | kComplexTypes;
  static Tensor forward(const Tensor& x, DimList dims, bool keepdim) {
    const Tensor in = is_differentiable(x.dtype()) ? x : cast(x, default_dtype());
    return apply<LogSumExpOp>(in, dims, keepdim);
  }
};
COGRAD_OP(LogSumExp)

}  // namespace

Tensor expand_reduced(const Tensor& g, IntList sizes, DimMask mask) {
  return apply<ExpandReduced>(g, sizes, static_cast<int64_t>(mask));
}
Tensor sum_mask(const Tensor& x, DimMask mask, bool keepdim) {
  if (mask == 0) return x;
  const Dims dims = mask_dims(mask);
  return apply<Sum>(x, std::optional<IntList>(dims), keepdim, std::optional<DType>());
}
Tensor sum(const Tensor& x, std::optional<IntList> dims, bool keepdim) {
  return apply<Sum>(x, dims, keepdim, std::optional<DType>());
}
Tensor any(const Tensor& x) { return apply<Any>(x, std::optional<DimList>(), false); }
Tensor mean(const Tensor& x, std::optional<IntList> dims, bool keepdim) {
  return apply<Mean>(x, dims, keepdim, std::optional<DType>());
}

Tensor product_of_others(const Tensor& x, DimMask mask) {
  if (mask == 0) return ones_like(x);
  const int d = static_cast<int>(std::bit_width(mask)) - 1;
  // Running products from both ends: s[0] = 1, s[k] = x[k - 1] s[k - 1], and its mirror image.
  auto one_at = [&](bool last) {
    const Tensor e = zeros_like(x);
    const Axis a = axis_of(x.sizes(), d);
    Dims sizes(x.sizes());
    sizes[static_cast<size_t>(d)] = a.n == 0 ? 0 : 1;
    char* at = e.bytes() + (last && a.n > 0 ? (a.n - 1) * a.inner * e.itemsize() : 0);
    raw_fill(alias_strided(e, sizes, e.strides(), at), 1);
    return e;
  };
  const Tensor before = linear_recurrence(one_at(false), shift(x, d, 1), d, false);
  const Tensor after = linear_recurrence(one_at(true), shift(x, d, -1), d, true);
  const Tensor along = before * after;
  const DimMask rest = mask & ~(DimMask{1} << d);
  if (rest == 0) return along;
  const int64_t dim = d;
  const Tensor inner = apply<ProdOp>(x, IntList(&dim, 1), true, x.dtype());
  return along * product_of_others(inner, rest);
}

}  // namespace cograd
