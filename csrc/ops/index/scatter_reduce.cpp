// SPDX-License-Identifier: BSD-3-Clause
// scatter_reduce and index_reduce: sums, products, means and extremes at index positions.
#include "ops/compute/host_values.h"
#include "ops/declare/kinked.h"
#include "ops/index/gather_scatter.h"

#include <algorithm>

#include "kernels/index/sort.h"

namespace cograd {

namespace {

using kernels::ScatterReduce;

// Returns the positions along dim d that sort x; equal elements keep their order.
Tensor sorted_order(const Tensor& x, int d) {
  const Tensor in = raw_contiguous(x);
  Tensor order = empty(x.sizes(), DType::Int64);
  const Axis a = axis_of(x.sizes(), d);
  kernels::sort(x.dtype(), in.bytes(), nullptr, order.data<int64_t>(), a.outer, a.n, a.inner,
                false);
  return order;
}

ScatterReduce reduction(std::string_view name) {
  if (name == "sum") return ScatterReduce::Sum;
  if (name == "prod") return ScatterReduce::Prod;
  if (name == "mean") return ScatterReduce::Mean;
  if (name == "amax") return ScatterReduce::Amax;
  COGRAD_CHECK(name == "amin", "reduce argument must be either sum, prod, mean, amax or amin, got ",
               name);
  return ScatterReduce::Amin;
}

// Reductions whose gradient depends on the values save them.
constexpr int kReduceSaved = 4;
struct ReduceState : AlongDim {
  ScatterReduce op;
  bool include_self;
};

template <class Op>
Tensor reduce_forward(Ctx<Op>& ctx, const Tensor& self, int dim, const Tensor& index,
                      const Tensor& src, ScatterReduce op, bool include_self) {
  const char* name = Op::spec.name;
  COGRAD_CHECK(self.dtype() == src.dtype(), name,
               "(): Expected self.dtype to be equal to src.dtype, got ", dtype_name(self.dtype()),
               " and ", dtype_name(src.dtype()));
  COGRAD_CHECK_NOT_IMPLEMENTED(!is_wide_unsigned(self.dtype()) || op == ScatterReduce::Sum, name,
                               "(): not implemented for dtype ", dtype_name(self.dtype()));
  if (index.numel() > 0) check_gather_shapes(name, self, dim, index, &src);
  ctx->op = op;
  ctx->dim = dim;
  ctx->include_self = include_self;
  ctx->sizes = Dims(src.sizes());
  const bool values = op != ScatterReduce::Sum && op != ScatterReduce::Mean;
  ctx.save(index);
  if (values) ctx.save(self, src);
  Tensor from = src;
  Tensor at = index;
  Tensor out = rewrite_target(ctx, self, true, {&from, &at});
  raw_scatter_reduce(op, out, dim, at, from, include_self);
  if (values) ctx.save_output(out);
  return out;
}

Tensor reduced(const Tensor& x, int dim, const Tensor& index, const Tensor& src,
               std::string_view op);

// Returns, for each element of src, the product of start and the slot's other elements, from
// running products over both ends of the elements sorted by slot. It does not divide, so it is
// right for zeros and for all derivatives.
Tensor products_of_others(const Tensor& start, int d, const Tensor& index, const Tensor& src) {
  const Tensor order = sorted_order(index, d);
  const Tensor slot = gather(index, d, order), values = gather(src, d, order);
  const Tensor one = ones(src.sizes(), src.dtype());
  const auto n = static_cast<int>(size_or_1(src, d));
  const Tensor from_one = add(slot, 1);  // shift fills with 0
  Tensor result = gather(start, d, slot);
  for (const int sign : {1, -1}) {
    auto same_slot = [&](int by) { return eq(from_one, shift(from_one, d, sign * by)); };
    Tensor running = values;  // the product of the slot's last `by` elements
    for (int by = 1; by < n; by *= 2)
      running = running * where(same_slot(by), shift(running, d, sign * by), one);
    result = result * where(same_slot(1), shift(running, d, sign), one);
  }
  return gather(result, d, sorted_order(order, d));
}
bool any_slot_with_two(const Tensor& zeros_at) {
  const auto counts = host_values_or<double>(raw_contiguous(raw_cast(zeros_at, DType::Float64)), 0);
  return std::any_of(counts.begin(), counts.end(), [](double n) { return n > 1; });
}

// d prod / d src_i is the product of the others: result / src_i, unless src_i is the only zero.
template <class Op>
void product_grads(Ctx<Op>& ctx, const Tensor& g, const Tensor& index, Tensor& g_self,
                   Tensor& g_src) {
  const int d = ctx->dim;
  const Tensor self = ctx.saved(1);
  const Tensor src = corner(ctx.saved(2), index.sizes());
  const Tensor result = ctx.saved(3);
  const Tensor start = ctx->include_self ? self : scatter_value(self, d, index, 1);
  const Tensor ones_src = ones(index.sizes(), g.dtype());
  const Tensor others = reduced(ones_like(g), d, index, src, "prod");
  g_self = mul(g, others);
  const Tensor zero = eq(src, 0);
  const Tensor zeros_at =
      gather(scatter_add(zeros_like(g), d, index, cast(zero, g.dtype())), d, index);
  if (ctx.differentiated() && any_slot_with_two(zeros_at)) {
    g_src = gather(g, d, index) * products_of_others(start, d, index, src);
    return;
  }
  const Tensor lonely = logical_and(zero, eq(zeros_at, 1));
  const Tensor without = reduced(start, d, index, where(lonely, ones_src, src), "prod");
  g_src = where(lonely, gather(mul(g, without), d, index),
                div(gather(mul(g, result), d, index), where(zero, ones_src, src)));
}
// Ties share the gradient equally.
template <class Op>
void extreme_grads(Ctx<Op>& ctx, const Tensor& g, const Tensor& index, Tensor& g_self,
                   Tensor& g_src) {
  const int d = ctx->dim;
  const Tensor self = ctx.saved(1);
  const Tensor src = corner(ctx.saved(2), index.sizes());
  const Tensor result = ctx.saved(3);
  Tensor from_self = cast(eq(self, result), g.dtype());
  if (!ctx->include_self) from_self = scatter_value(from_self, d, index, 0);
  const Tensor from_src = cast(eq(src, gather(result, d, index)), g.dtype());
  const Tensor share = div(g, scatter_add(from_self, d, index, from_src));
  g_self = mul(from_self, share);
  g_src = mul(from_src, gather(share, d, index));
}

template <class Op>
void reduce_backward(Ctx<Op>& ctx, const Tensor& g) {
  const Tensor index = ctx.saved(0);
  if (index.numel() == 0) {  // src was not read and may have any shape
    if (ctx.needs(0)) ctx.grad(0) = g;
    if (ctx.needs(2)) ctx.grad(2) = zeros(ctx->sizes, g.dtype());
    return;
  }
  Tensor g_self;
  Tensor g_src;
  switch (ctx->op) {
    case ScatterReduce::Sum:
      g_self = g;
      g_src = gather(g, ctx->dim, index);
      break;
    case ScatterReduce::Mean: {
      const DType t = real_dtype(g.dtype());
      const Tensor start = ctx->include_self ? ones(g.sizes(), t) : zeros(g.sizes(), t);
      const Tensor n = clamp_min(scatter_add(start, ctx->dim, index, ones(index.sizes(), t)), 1);
      g_self = div(g, n);
      g_src = gather(g_self, ctx->dim, index);
      break;
    }
    case ScatterReduce::Prod:
      COGRAD_CHECK(!is_complex(g.dtype()),
                   "scatter_reduce does not support automatic differentiation for products of "
                   "complex numbers.");
      product_grads(ctx, g, index, g_self, g_src);
      if (ctx.needs(0)) g_self = kinked(ctx, g_self);
      break;
    default:
      extreme_grads(ctx, g, index, g_self, g_src);
  }
  if (ctx.needs(0)) {
    if (!ctx->include_self) g_self = scatter_value(g_self, ctx->dim, index, 0);
    ctx.grad(0) = std::move(g_self);
  }
  if (ctx.needs(2)) ctx.grad(2) = pad_corner(g_src, ctx->sizes);
}

struct ScatterReduceOp {
  static constexpr OpSpec spec{
      "scatter_reduce",
      "input, dim, index, src, reduce, *, include_self=True",
      kFunctional | kInplace | kOut | kIndex | kOutIsInput | kExactOut,
      "input reduced with the elements of src at index along dim; reduce is 'sum', 'prod', 'mean', "
      "'amax' or 'amin'. With include_self False the written positions ignore input.",
      "T(3, 4), 0, I(2, 4, hi=3), T(2, 4), 'sum'; T(3, 4), 1, I(2, 3, hi=4), T(3, 3), 'mean'; "
      "P(3, 4), 0, I(2, 4, hi=3), P(2, 4), 'prod'; T(3, 4), 0, I(2, 4, hi=3), T(2, 4), 'amax'; "
      "T(4), 0, I(6, hi=4), T(6), 'amin', include_self=False; "
      "T(4), 0, I(6, hi=4), T(6), 'mean', include_self=False; "
      "P(4), 0, I(6, hi=4), P(6), 'prod', include_self=False",
      ""};
  static constexpr int kSaved = kReduceSaved;
  static constexpr const char* kNodeName = "ScatterReduceBackward0";
  using State = ReduceState;
  static Tensor forward(Ctx<ScatterReduceOp>& ctx, const Tensor& self, Dim dim, const Tensor& index,
                        const Tensor& src, std::string_view reduce, bool include_self) {
    const ScatterReduce op = reduction(reduce);
    const int d = wrap_dim(dim, self.dim());
    return reduce_forward(ctx, self, d, index64_if_any(index, "scatter_reduce"), src, op,
                          include_self);
  }
  static void backward(Ctx<ScatterReduceOp>& ctx, const Tensor& g) { reduce_backward(ctx, g); }
};
COGRAD_OP(ScatterReduceOp)

Tensor reduced(const Tensor& x, int dim, const Tensor& index, const Tensor& src,
               std::string_view op) {
  return apply<ScatterReduceOp>(x, int64_t{dim}, index, src, op, true);
}

struct IndexReduce {
  static constexpr OpSpec spec{
      "index_reduce",
      "input, dim, index, source, reduce, *, include_self=True",
      kFunctional | kInplace | kOut | kIndex | kOutIsInput | kExactOut,
      "input with the slices of source reduced into the slices at index along dim; reduce is "
      "'prod', 'mean', 'amax' or 'amin'.",
      "T(3, 4), 0, I(5, hi=3), T(5, 4), 'mean'; P(3, 4), 1, I(2, hi=4), P(3, 2), 'prod'; "
      "T(3, 4), 0, I(5, hi=3), T(5, 4), 'amax', include_self=False",
      ""};
  static constexpr DTypeSet kDTypes = kAllTypes;
  static constexpr int kSaved = kReduceSaved;
  using State = ReduceState;
  static Tensor forward(Ctx<IndexReduce>& ctx, const Tensor& self, Dim dim, const Tensor& index,
                        const Tensor& source, std::string_view reduce, bool include_self) {
    COGRAD_CHECK(reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin",
                 "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got ",
                 reduce, ".");
    COGRAD_CHECK_NOT_IMPLEMENTED(!is_complex(self.dtype()),
                                 "index_reduce(): not implemented for dtype ",
                                 dtype_name(self.dtype()));
    const int d = wrap_dim(dim, self.dim());
    COGRAD_CHECK_INDEX(index.dim() <= 1, "index_reduce(): Index is supposed to be a vector");
    COGRAD_CHECK(source.dim() == self.dim() && index.numel() == size_or_1(source, d),
                 "index_reduce(): Number of indices (", index.numel(),
                 ") should be equal to source.size(dim): (", size_or_1(source, d),
                 "), for dim: ", d);
    const Tensor at = raw_contiguous(index64(index, "index_reduce"));
    Dims strides(static_cast<size_t>(source.dim()), 0);
    if (source.dim() > 0) strides[static_cast<size_t>(d)] = 1;
    const Tensor wide = alias_strided(at, source.sizes(), strides, at.bytes());
    return reduce_forward(ctx, self, d, wide, source, reduction(reduce), include_self);
  }
  static void backward(Ctx<IndexReduce>& ctx, const Tensor& g) { reduce_backward(ctx, g); }
};
COGRAD_OP(IndexReduce)

}  // namespace

}  // namespace cograd
