// SPDX-License-Identifier: BSD-3-Clause
// Copies of a tensor with the region of a view op replaced: slice_scatter and related ops.
#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"

namespace cograd {

namespace {

void check_source(const Tensor& src, const Tensor& region) {
  COGRAD_CHECK(same(src.sizes(), region.sizes()),
               "expected src to have a size equal to the slice of self. src size = ",
               to_string(src.sizes()), ", slice size = ", to_string(region.sizes()));
}

// Returns a copy of x with src in the place of region(copy).
template <class Region>
Tensor replaced(const Tensor& x, const Tensor& src, const Region& region) {
  check_source(src, region(x));
  Tensor out = empty_preserving(x, x.dtype());
  raw_copy(out, x);
  raw_copy(region(out), src);
  return out;
}

struct SelectScatter {
  static constexpr OpSpec spec{"select_scatter",
                               "input, src, dim, index",
                               kFunctional | kShape,
                               "A copy of input with src at one index of a dim.",
                               "T(3, 4), T(4), 0, 1; T(3, 4), T(3), 1, -1",
                               ""};
  struct State {
    int dim;
    int64_t index;
    Dims sizes;
  };
  static constexpr TangentRule kTangent = linear({0, 1});
  static Tensor forward(Ctx<SelectScatter>& ctx, const Tensor& x, const Tensor& src, Dim dim,
                        int64_t index) {
    const int d = wrap_dim(dim, x.dim());
    COGRAD_CHECK_INDEX(x.dim() > 0, "select() cannot be applied to a 0-dim tensor.");
    const int64_t at = check_select(x, d, index);
    if (ctx.recording()) *ctx.operator->() = {d, at, Dims(src.sizes())};
    return replaced(x, src, [&](const Tensor& t) { return select_region(t, d, at); });
  }
  static void backward(Ctx<SelectScatter>& ctx, const Tensor& g) {
    if (ctx.needs(0))
      ctx.grad(0) =
          apply<SelectScatter>(g, zeros(ctx->sizes, g.dtype()), int64_t{ctx->dim}, ctx->index);
    if (ctx.needs(1)) ctx.grad(1) = select(g, ctx->dim, ctx->index);
  }
};
COGRAD_OP(SelectScatter)

struct SliceScatter {
  static constexpr OpSpec spec{"slice_scatter",
                               "input, src, dim=0, start=None, end=None, step=1",
                               kFunctional | kShape,
                               "A copy of input with src in input[start:end:step].",
                               "T(4, 3), T(2, 3), 0, 1, 3; T(2, 4), T(2, 2), 1, 0, None, 2",
                               ""};
  using Bound = std::optional<int64_t>;
  struct State {
    int dim;
    Bound start, end;
    int64_t step;
    Dims sizes;
  };
  static constexpr TangentRule kTangent = linear({0, 1});
  static Tensor forward(Ctx<SliceScatter>& ctx, const Tensor& x, const Tensor& src, Dim dim,
                        Bound start, Bound end, int64_t step) {
    COGRAD_CHECK(x.dim() > 0, "slice_scatter() cannot be applied to a 0-dim tensor.");
    const int d = wrap_dim(dim, x.dim());
    const SliceBounds bounds = slice_bounds(x.size(d), start, end, step);
    if (ctx.recording()) *ctx.operator->() = {d, start, end, step, Dims(src.sizes())};
    return replaced(x, src, [&](const Tensor& t) { return slice_region(t, d, bounds, step); });
  }
  static void backward(Ctx<SliceScatter>& ctx, const Tensor& g) {
    if (ctx.needs(0))
      ctx.grad(0) = apply<SliceScatter>(g, zeros(ctx->sizes, g.dtype()), int64_t{ctx->dim},
                                        ctx->start, ctx->end, ctx->step);
    if (ctx.needs(1)) ctx.grad(1) = slice(g, ctx->dim, ctx->start, ctx->end, ctx->step);
  }
};
COGRAD_OP(SliceScatter)

struct DiagonalScatter {
  static constexpr OpSpec spec{"diagonal_scatter",
                               "input, src, offset=0, dim1=0, dim2=1",
                               kFunctional | kShape,
                               "A copy of input with src on a diagonal.",
                               "T(3, 4), T(3); T(3, 3), T(2), -1",
                               ""};
  struct State {
    int64_t offset, dim1, dim2;
    Dims sizes;
  };
  static constexpr TangentRule kTangent = linear({0, 1});
  static Tensor forward(Ctx<DiagonalScatter>& ctx, const Tensor& x, const Tensor& src,
                        int64_t offset, Dim dim1, Dim dim2) {
    const auto dims = diagonal_dims(x.dim(), dim1, dim2);
    if (ctx.recording()) *ctx.operator->() = {offset, dims.first, dims.second, Dims(src.sizes())};
    return replaced(x, src, [&](const Tensor& t) {
      return diagonal_region(t, offset, dims.first, dims.second);
    });
  }
  static void backward(Ctx<DiagonalScatter>& ctx, const Tensor& g) {
    if (ctx.needs(0))
      ctx.grad(0) = apply<DiagonalScatter>(g, zeros(ctx->sizes, g.dtype()), ctx->offset, ctx->dim1,
                                           ctx->dim2);
    if (ctx.needs(1)) ctx.grad(1) = diagonal(g, ctx->offset, ctx->dim1, ctx->dim2);
  }
};
COGRAD_OP(DiagonalScatter)

struct AsStridedScatter {
  static constexpr OpSpec spec{
      "as_strided_scatter",
      "input, src, size, stride, storage_offset=None",
      kFunctional | kShape | kReadsBytes,
      "A copy of input with src in the region of as_strided(size, stride, storage_offset).",
      "T(6), T(2, 2), (2, 2), (2, 1), 1",
      ""};
  static Tensor forward(const Tensor& x, const Tensor& src, Shape size, Shape stride,
                        std::optional<int64_t> offset) {
    const int64_t at = offset.value_or(x.storage_offset());
    {
      GradGuard no_grad(false);
      check_source(src, as_strided(x, size, stride, at));
    }
    return autograd_ops.scatter_slice(x, src, size, stride, at - x.storage_offset());
  }
};
COGRAD_OP(AsStridedScatter)

}  // namespace

}  // namespace cograd
