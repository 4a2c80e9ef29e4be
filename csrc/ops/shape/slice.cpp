// SPDX-License-Identifier: BSD-3-Clause
// Views of a part (slice, select, narrow, diagonal, unfold), their gradients, and the ops that
// write such a part into a copy.
#include "ops/core/ops.h"
#include "ops/core/raw.h"
#include "ops/shape/geometry.h"

namespace cograd {

namespace {

// g must have exactly the shape of the region it is written to.
const Tensor& checked(const char* op, const Tensor& region, const Tensor& g) {
  COGRAD_CHECK(same(region.sizes(), g.sizes()), op, "(): expected a gradient of shape ",
               to_string(region.sizes()), ", got ", to_string(g.sizes()));
  return g;
}

struct SliceArgs {
  Dims sizes;
  int64_t dim = 0;
  std::optional<int64_t> start;
  std::optional<int64_t> end;
  int64_t step = 1;
};

void check_has_dims(const char* op, const Tensor& x) {
  COGRAD_CHECK(x.dim() > 0, op, "() cannot be applied to a 0-dim tensor.");
}

// Zeros of `sizes` with g in a slice: the gradient of a slice, made in one pass.
struct SliceBackward {
  static constexpr OpSpec spec{"_slice_backward",
                               "grad_output, input_sizes, dim, start=None, end=None, step=1",
                               kInternal, "Zeros of input_sizes with grad_output in a slice.",
                               "T(2, 4), (5, 4), 0, 1, 3; T(3, 2), (3, 4), 1, None, None, 2"};
  using State = SliceArgs;
  static Tensor forward(Ctx<SliceBackward>& ctx, const Tensor& g, IntList sizes, int64_t dim,
                        std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
    const int d = wrap_dim(dim, static_cast<int>(sizes.size()));
    if (ctx.recording()) *ctx.operator->() = {Dims(), d, start, end, step};
    Tensor out = zeros(sizes, g.dtype());
    const Tensor part = slice_region(out, d, slice_bounds(out.size(d), start, end, step), step);
    raw_copy(part, checked("_slice_backward", part, g));
    return out;
  }
  static Tensor backward(Ctx<SliceBackward>& ctx, const Tensor& g) {
    return slice(g, ctx->dim, ctx->start, ctx->end, ctx->step);
  }
};
COGRAD_OP(SliceBackward)

struct Slice {
  static constexpr OpSpec spec{
      "_slice", "input, dim=0, start=None, end=None, step=1", kInternal,
      "The view input[start:end:step] along one dim.",
      "T(5, 4), 0, 1, 3; T(3, 4), 1, None, None, 2; T(4), 0, -3; T(4), 0, 3, 1"};
  static constexpr bool kView = true;
  using State = SliceArgs;
  static Tensor forward(Ctx<Slice>& ctx, const Tensor& x, int64_t dim, std::optional<int64_t> start,
                        std::optional<int64_t> end, int64_t step) {
    check_has_dims("slice", x);
    const int d = wrap_dim(dim, x.dim());
    const SliceBounds bounds = slice_bounds(x.size(d), start, end, step);
    if (ctx.recording()) *ctx.operator->() = {Dims(x.sizes()), d, start, end, step};
    Tensor out = slice_region(x, d, bounds, step);
    link_view(x, out);
    return out;
  }
  static Tensor backward(Ctx<Slice>& ctx, const Tensor& g) {
    return apply<SliceBackward>(g, IntList(ctx->sizes), ctx->dim, ctx->start, ctx->end, ctx->step);
  }
};
COGRAD_OP(Slice)

struct Narrow {
  static constexpr OpSpec spec{"narrow",
                               "input, dim, start, length",
                               kFunctional,
                               "The view input[start : start + length] along one dim.",
                               "T(5, 4), 0, 1, 3; T(3, 4), -1, -2, 2",
                               ""};
  static Tensor forward(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
    check_has_dims("narrow", x);
    COGRAD_CHECK(length >= 0, "narrow(): length must be non-negative.");
    const int64_t size = x.size(wrap_dim(dim, x.dim()));
    COGRAD_CHECK_INDEX(start >= -size && start <= size,
                       "start out of range (expected to be in range of [", -size, ", ", size,
                       "], but got ", start, ")");
    const int64_t from = start < 0 ? start + size : start;
    COGRAD_CHECK(length <= size - from, "start (", from, ") + length (", length,
                 ") exceeds dimension size (", size, ").");
    return slice(x, dim, from, from + length, 1);
  }
};
COGRAD_OP(Narrow)

struct SelectArgs {
  Dims sizes;
  int64_t dim = 0;
  int64_t index = 0;
};

struct SelectBackward {
  static constexpr OpSpec spec{
      "_select_backward", "grad_output, input_sizes, dim, index", kInternal,
      "Zeros of input_sizes with grad_output at one index of a dim.", "T(4), (3, 4), 0, 2"};
  using State = SelectArgs;
  static Tensor forward(Ctx<SelectBackward>& ctx, const Tensor& g, IntList sizes, int64_t dim,
                        int64_t index) {
    const int d = wrap_dim(dim, static_cast<int>(sizes.size()));
    if (ctx.recording()) *ctx.operator->() = {Dims(), d, index};
    Tensor out = zeros(sizes, g.dtype());
    const Tensor part = select_region(out, d, check_select(out, d, index));
    raw_copy(part, checked("_select_backward", part, g));
    return out;
  }
  static Tensor backward(Ctx<SelectBackward>& ctx, const Tensor& g) {
    return select(g, ctx->dim, ctx->index);
  }
};
COGRAD_OP(SelectBackward)

struct Select {
  static constexpr OpSpec spec{"select",
                               "input, dim, index",
                               kFunctional,
                               "The view at one index of a dim, without that dim.",
                               "T(3, 4), 0, 1; T(2, 3, 4), -1, -2; T(3), 0, 0",
                               "np.take(input, index, dim)"};
  static constexpr bool kView = true;
  using State = SelectArgs;
  static Tensor forward(Ctx<Select>& ctx, const Tensor& x, int64_t dim, int64_t index) {
    COGRAD_CHECK_INDEX(x.dim() > 0, "select() cannot be applied to a 0-dim tensor.");
    const int d = wrap_dim(dim, x.dim());
    const int64_t at = check_select(x, d, index);
    if (ctx.recording()) *ctx.operator->() = {Dims(x.sizes()), d, at};
    Tensor out = select_region(x, d, at);
    link_view(x, out);
    return out;
  }
  static Tensor backward(Ctx<Select>& ctx, const Tensor& g) {
    return apply<SelectBackward>(g, IntList(ctx->sizes), ctx->dim, ctx->index);
  }
};
COGRAD_OP(Select)

struct DiagonalArgs {
  Dims sizes;
  int64_t offset = 0;
  int64_t dim1 = 0;
  int64_t dim2 = 1;
};

struct DiagonalBackward {
  static constexpr OpSpec spec{"_diagonal_backward", "grad_output, input_sizes, offset, dim1, dim2",
                               kInternal, "Zeros of input_sizes with grad_output on a diagonal.",
                               "T(3), (3, 4), 0, 0, 1; T(2, 2), (3, 2, 4), 2, 0, 2"};
  using State = DiagonalArgs;
  static Tensor forward(Ctx<DiagonalBackward>& ctx, const Tensor& g, IntList sizes, int64_t offset,
                        int64_t dim1, int64_t dim2) {
    const auto [a, b] = diagonal_dims(static_cast<int>(sizes.size()), dim1, dim2);
    if (ctx.recording()) *ctx.operator->() = {Dims(), offset, a, b};
    Tensor out = zeros(sizes, g.dtype());
    const Tensor part = diagonal_region(out, offset, a, b);
    raw_copy(part, checked("_diagonal_backward", part, g));
    return out;
  }
  static Tensor backward(Ctx<DiagonalBackward>& ctx, const Tensor& g) {
    return diagonal(g, ctx->offset, ctx->dim1, ctx->dim2);
  }
};
COGRAD_OP(DiagonalBackward)

struct Diagonal {
  static constexpr OpSpec spec{"diagonal",
                               "input, offset=0, dim1=0, dim2=1",
                               kFunctional,
                               "The view of a diagonal of two dims, as the last dim.",
                               "T(3, 4); T(3, 4), 1; T(2, 3, 4), -1, 0, 2; T(3, 4), 9",
                               "np.diagonal(input, offset, dim1, dim2)"};
  static constexpr bool kView = true;
  using State = DiagonalArgs;
  static Tensor forward(Ctx<Diagonal>& ctx, const Tensor& x, int64_t offset, int64_t dim1,
                        int64_t dim2) {
    const auto [a, b] = diagonal_dims(x.dim(), dim1, dim2);
    if (ctx.recording()) *ctx.operator->() = {Dims(x.sizes()), offset, a, b};
    Tensor out = diagonal_region(x, offset, a, b);
    link_view(x, out);
    return out;
  }
  static Tensor backward(Ctx<Diagonal>& ctx, const Tensor& g) {
    return apply<DiagonalBackward>(g, IntList(ctx->sizes), ctx->offset, ctx->dim1, ctx->dim2);
  }
};
COGRAD_OP(Diagonal)

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

// Windows may overlap, so terms are added: one position inside the window at a time, which never
// meets itself.
struct UnfoldBackward {
  static constexpr OpSpec spec{"_unfold_backward", "grad_in, input_sizes, dim, size, step",
                               kInternal, "Sum of windows back into a tensor of input_sizes.",
                               "T(4, 2), (5,), 0, 2, 1"};
  using State = UnfoldArgs;
  static Tensor forward(Ctx<UnfoldBackward>& ctx, const Tensor& g, IntList sizes, int64_t dim,
                        int64_t size, int64_t step) {
    const int d = wrap_dim(dim, static_cast<int>(sizes.size()));
    if (ctx.recording()) *ctx.operator->() = {Dims(), d, size, step};
    Tensor out = zeros(sizes, g.dtype());
    checked("_unfold_backward", window_region(out, d, size, step), g);
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
                               kMethod,
                               "A view of all windows of `size`, `step` apart, as a new last dim.",
                               "T(5), 0, 2, 1; T(3, 7), 1, 3, 2; T(), 0, 1, 1",
                               ""};
  static constexpr bool kView = true;
  using State = UnfoldArgs;
  static Tensor forward(Ctx<Unfold>& ctx, const Tensor& x, int64_t dim, int64_t size,
                        int64_t step) {
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

Tensor slice(const Tensor& x, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
             int64_t step) {
  return apply<Slice>(x, dim, start, end, step);
}
Tensor select(const Tensor& x, int64_t dim, int64_t index) { return apply<Select>(x, dim, index); }
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  return apply<Narrow>(x, dim, start, length);
}
Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  return apply<Diagonal>(x, offset, dim1, dim2);
}
Tensor diagonal_backward(const Tensor& g, IntList sizes, int64_t offset, int64_t dim1,
                         int64_t dim2) {
  return apply<DiagonalBackward>(g, sizes, offset, dim1, dim2);
}
Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step) {
  return apply<Unfold>(x, dim, size, step);
}

}  // namespace cograd
