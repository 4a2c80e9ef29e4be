// SPDX-License-Identifier: BSD-3-Clause
// Views of a part along one dim (slice, narrow, select) and their gradients.
#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"

namespace cograd {

namespace {

struct SliceArgs {
  Dims sizes;
  int64_t dim = 0;
  std::optional<int64_t> start;
  std::optional<int64_t> end;
  int64_t step = 1;
};

void check_has_dims(const char* op, int ndim) {
  COGRAD_CHECK(ndim > 0, op, "() cannot be applied to a 0-dim tensor.");
}

// Returns the sliced dim of a gradient of `sizes`.
int sliced_dim(const char* op, Shape sizes, Dim dim) {
  const int ndim = static_cast<int>(sizes.size());
  check_has_dims(op, ndim);
  return wrap_dim(dim, ndim);
}

// The gradient of a slice: zeros of `sizes` with g in the slice, written in one pass.
struct SliceBackward {
  static constexpr OpSpec spec{
      "_slice_backward", "grad_output, input_sizes, dim, start=None, end=None, step=1",
      kInternal | kShape, "Zeros of input_sizes with grad_output in a slice.",
      "T(2, 4), (5, 4), 0, 1, 3; T(3, 2), (3, 4), 1, None, None, 2"};
  using State = SliceArgs;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_shaped_dims();
  static Tensor forward(Ctx<SliceBackward>& ctx, const Tensor& g, Shape sizes, Dim dim,
                        std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
    const int d = sliced_dim("_slice_backward", sizes, dim);
    if (ctx.recording()) *ctx.operator->() = {Dims(), d, start, end, step};
    Tensor out = zeros(sizes, g.dtype());
    const Tensor part = slice_region(out, d, slice_bounds(out.size(d), start, end, step), step);
    raw_copy(part, checked_part("_slice_backward", part, g));
    return out;
  }
  static Tensor backward(Ctx<SliceBackward>& ctx, const Tensor& g) {
    return slice(g, ctx->dim, ctx->start, ctx->end, ctx->step);
  }
};
COGRAD_OP(SliceBackward)

struct Slice {
  static constexpr OpSpec spec{
      "_slice", "input, dim=0, start=None, end=None, step=1", kInternal | kView,
      "The view input[start:end:step] along one dim.",
      "T(5, 4), 0, 1, 3; T(3, 4), 1, None, None, 2; T(4), 0, -3; T(4), 0, 3, 1"};
  using State = SliceArgs;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Slice>& ctx, const Tensor& x, Dim dim, std::optional<int64_t> start,
                        std::optional<int64_t> end, int64_t step) {
    check_has_dims("slice", x.dim());
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
                               kFunctional | kView,
                               "The view input[start : start + length] along one dim.",
                               "T(5, 4), 0, 1, 3; T(3, 4), -1, -2, 2",
                               ""};
  static Tensor forward(const Tensor& x, Dim dim, int64_t start, int64_t length) {
    check_has_dims("narrow", x.dim());
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
      "_select_backward", "grad_output, input_sizes, dim, index", kInternal | kShape,
      "Zeros of input_sizes with grad_output at one index of a dim.", "T(4), (3, 4), 0, 2"};
  using State = SelectArgs;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_shaped_dims();
  static Tensor forward(Ctx<SelectBackward>& ctx, const Tensor& g, Shape sizes, Dim dim,
                        int64_t index) {
    const int d = sliced_dim("_select_backward", sizes, dim);
    if (ctx.recording()) *ctx.operator->() = {Dims(), d, index};
    Tensor out = zeros(sizes, g.dtype());
    const Tensor part = select_region(out, d, check_select(out, d, index));
    raw_copy(part, checked_part("_select_backward", part, g));
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
                               kFunctional | kView,
                               "The view at one index of a dim, without that dim.",
                               "T(3, 4), 0, 1; T(2, 3, 4), -1, -2; T(3), 0, 0",
                               "np.take(input, index, dim)"};
  using State = SelectArgs;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Select>& ctx, const Tensor& x, Dim dim, int64_t index) {
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

}  // namespace

Tensor slice(const Tensor& x, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
             int64_t step) {
  return apply<Slice>(x, dim, start, end, step);
}
Tensor select(const Tensor& x, int64_t dim, int64_t index) { return apply<Select>(x, dim, index); }
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  return apply<Narrow>(x, dim, start, length);
}

}  // namespace cograd
