// SPDX-License-Identifier: BSD-3-Clause
// unfold: a view of all windows along one dim.
#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"

namespace cograd {

namespace {

struct UnfoldArgs {
  Dims sizes;
  int64_t dim = 0;
  int64_t size = 0;
  int64_t step = 1;
};

Tensor window_region(const Tensor& x, int d, int64_t size, int64_t step) {
  const int64_t have = x.dim() == 0 ? 1 : x.size(d);
  COGRAD_CHECK(size >= 0, "size is ", size, " but must be >= 0");
  COGRAD_CHECK(size <= have, "maximum size for tensor at dimension ", d, " is ", have,
               " but size is ", size);
  COGRAD_CHECK(step > 0, "step is ", step, " but must be > 0");
  Dims sizes(x.sizes());
  Dims strides(x.strides());
  const auto at = static_cast<size_t>(d);
  sizes.push_back(size);
  strides.push_back(x.dim() == 0 ? 1 : strides[at]);
  if (x.dim() > 0) {
    sizes[at] = (have - size) / step + 1;
    strides[at] = scaled_stride(strides[at], step);
  }
  return alias_strided(x, sizes, strides, x.bytes());
}

// Windows may overlap, so gradients are added one position of the window at a time: elements at the
// same position of different windows never overlap.
struct UnfoldBackward {
  static constexpr OpSpec spec{
      "_unfold_backward", "grad_in, input_sizes, dim, size, step", kInternal | kShape,
      "Sum of windows back into a tensor of input_sizes.", "T(4, 2), (5,), 0, 2, 1"};
  using State = UnfoldArgs;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_shaped_dims();
  static Tensor forward(Ctx<UnfoldBackward>& ctx, const Tensor& g, Shape sizes, Dim dim,
                        int64_t size, int64_t step) {
    const int d = wrap_dim(dim, static_cast<int>(sizes.size()));
    if (ctx.recording()) *ctx.operator->() = {Dims(), d, size, step};
    Tensor out = zeros(sizes, g.dtype());
    checked_part("_unfold_backward", window_region(out, d, size, step), g);
    if (out.dim() == 0) {
      if (size > 0) raw_copy(out, g);
      return out;
    }
    COGRAD_CHECK(g.dim() == out.dim() + 1 && g.size(-1) == size && size >= 0 && step > 0,
                 "_unfold_backward(): grad_in of shape ", to_string(g.sizes()),
                 " does not hold windows of size ", size);
    const int64_t windows = g.size(d);
    COGRAD_CHECK(windows == 0 || (windows - 1) * step + size <= out.size(d),
                 "_unfold_backward(): ", windows, " windows of size ", size, " and step ", step,
                 " do not fit dimension ", d, " of size ", out.size(d));
    for (int64_t i = 0; i < size && windows > 0; ++i)
      autograd_ops.add_(slice_region(out, d, {i, windows}, step), select_region(g, g.dim() - 1, i));
    return out;
  }
  static Tensor backward(Ctx<UnfoldBackward>& ctx, const Tensor& g) {
    return unfold(g, ctx->dim, ctx->size, ctx->step);
  }
};
COGRAD_OP(UnfoldBackward)

struct Unfold {
  static constexpr OpSpec spec{"unfold",
                               "input, dimension, size, step",
                               kMethod | kView,
                               "A view of all windows of `size`, `step` apart, as a new last dim.",
                               "T(5), 0, 2, 1; T(3, 7), 1, 3, 2; T(), 0, 1, 1",
                               ""};
  using State = UnfoldArgs;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Unfold>& ctx, const Tensor& x, Dim dim, int64_t size, int64_t step) {
    const int d = wrap_dim(dim, x.dim());
    Tensor out = window_region(x, d, size, step);
    if (ctx.recording()) *ctx.operator->() = {Dims(x.sizes()), d, size, step};
    link_view(x, out);
    return out;
  }
  static Tensor backward(Ctx<Unfold>& ctx, const Tensor& g) {
    return apply<UnfoldBackward>(g, IntList(ctx->sizes), ctx->dim, ctx->size, ctx->step);
  }
};
COGRAD_OP(Unfold)

}  // namespace

Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step) {
  return apply<Unfold>(x, dim, size, step);
}

}  // namespace cograd
