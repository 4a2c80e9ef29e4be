// SPDX-License-Identifier: BSD-3-Clause
// Diagonals as views and as copies, and tensors built from diagonals.
#include <limits>

#include "ops/compute/elementwise.h"
#include "ops/declare/autocast.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"

namespace cograd {

namespace {

struct DiagonalArgs {
  Dims sizes;
  int64_t offset = 0;
  int64_t dim1 = 0;
  int64_t dim2 = 1;
};

struct DiagonalBackward {
  static constexpr OpSpec spec{"_diagonal_backward", "grad_output, input_sizes, offset, dim1, dim2",
                               kInternal | kShape,
                               "Zeros of input_sizes with grad_output on a diagonal.",
                               "T(3), (3, 4), 0, 0, 1; T(2, 2), (3, 2, 4), 2, 0, 2"};
  using State = DiagonalArgs;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_shaped_dims();
  static Tensor forward(Ctx<DiagonalBackward>& ctx, const Tensor& g, Shape sizes, int64_t offset,
                        Dim dim1, Dim dim2) {
    const auto [a, b] = diagonal_dims(static_cast<int>(sizes.size()), dim1, dim2);
    if (ctx.recording()) *ctx.operator->() = {Dims(), offset, a, b};
    Tensor out = zeros(sizes, g.dtype());
    const Tensor part = diagonal_region(out, offset, a, b);
    raw_copy(part, checked_part("_diagonal_backward", part, g));
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
                               kFunctional | kView,
                               "The view of a diagonal of two dims, as the last dim.",
                               "T(3, 4); T(3, 4), 1; T(2, 3, 4), -1, 0, 2; T(3, 4), 9",
                               "np.diagonal(input, offset, dim1, dim2)"};
  using State = DiagonalArgs;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Diagonal>& ctx, const Tensor& x, int64_t offset, Dim dim1, Dim dim2) {
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

struct DiagEmbed {
  static constexpr OpSpec spec{"diag_embed",
                               "input, offset=0, dim1=-2, dim2=-1",
                               kFunctional | kShape,
                               "Matrices with the last dim of the input on a diagonal.",
                               "T(3); T(2, 3), 1; T(2, 3), -1, 0, 2",
                               ""};
  struct State {
    int64_t offset;
    int64_t dim1;
    int64_t dim2;
  };
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_dims(1);
  static Tensor forward(Ctx<DiagEmbed>& ctx, const Tensor& x, int64_t offset, Dim dim1, Dim dim2) {
    COGRAD_CHECK_INDEX(x.dim() > 0, "diag_embed(): expected at least 1 dim, got a 0-dim tensor");
    const auto [a, b] = diagonal_dims(x.dim() + 1, dim1, dim2);
    *ctx.operator->() = {offset, a, b};
    COGRAD_CHECK(offset > std::numeric_limits<int64_t>::min(), "diag_embed(): offset ", offset,
                 " is out of range");
    const int64_t side = checked_add(x.size(-1), std::abs(offset));
    Dims sizes(x.sizes().first(static_cast<size_t>(x.dim() - 1)));
    sizes.insert(static_cast<size_t>(std::min(a, b)), side);
    sizes.insert(static_cast<size_t>(std::max(a, b)), side);
    Tensor out = zeros(sizes, x.dtype());
    raw_copy(diagonal_region(out, offset, a, b), x);
    return out;
  }
  static Tensor backward(Ctx<DiagEmbed>& ctx, const Tensor& g) {
    return diagonal(g, ctx->offset, ctx->dim1, ctx->dim2);
  }
};
COGRAD_OP(DiagEmbed)

struct DiagonalCopy {
  static constexpr OpSpec spec{"_diagonal_copy", "input, offset", kInternal | kShape,
                               "A copy of a matrix's diagonal.", "none: diag"};
  static constexpr const char* kNodeName = "DiagonalBackward0_copy";
  struct State {
    Dims sizes;
    int64_t offset;
  };
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<DiagonalCopy>& ctx, const Tensor& x, int64_t offset) {
    if (ctx.recording()) *ctx.operator->() = {Dims(x.sizes()), offset};
    const Tensor region = diagonal_region(x, offset, 0, 1);
    Tensor out = empty(region.sizes(), x.dtype());
    raw_copy(out, region);
    return out;
  }
  static Tensor backward(Ctx<DiagonalCopy>& ctx, const Tensor& g) {
    return diagonal_backward(g, ctx->sizes, ctx->offset, 0, 1);
  }
};

struct Diag {
  static constexpr OpSpec spec{"diag",
                               "input, diagonal=0",
                               kFunctional | kOut | kShape | kExactOut,
                               "The matrix with a vector on its diagonal, or a copy of a matrix's "
                               "diagonal.",
                               "T(3); T(3), -1; T(3, 4); T(3, 4), 1",
                               "np.diag(input, diagonal)"};
  static Tensor forward(const Tensor& x, int64_t offset) {
    COGRAD_CHECK(x.dim() == 1 || x.dim() == 2, "diag(): Supports 1D or 2D tensors. Got ", x.dim(),
                 "D");
    return x.dim() == 1 ? diag_embed(x, offset) : apply<DiagonalCopy>(x, offset);
  }
};
COGRAD_OP(Diag)

struct Diagflat {
  static constexpr OpSpec spec{"diagflat",
                               "input, offset=0",
                               kFunctional | kShape,
                               "The matrix with the flattened tensor on a diagonal.",
                               "T(3); T(2, 2), 1; T()",
                               "np.diagflat(input, offset)"};
  static Tensor forward(const Tensor& x, int64_t offset) { return diag_embed(flatten(x), offset); }
};
COGRAD_OP(Diagflat)

struct Trace {
  static constexpr OpSpec spec{"trace",
                               "input",
                               kFunctional | kReduction | kAutocastWide,
                               "Sum of a matrix's diagonal.",
                               "T(3, 4); T(3, 3)",
                               "np.trace(input)"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  struct State {
    Dims sizes;
  };
  static constexpr TangentRule kTangent = linear({0});
  static void batch(BatchCall& c) {
    const Tensor x = c.physical(c.arg(0).tensor());
    if (x.dim() != 3 || x.dtype() == DType::Bool) return c.loop();  // loop() raises the error
    const int64_t last[1] = {1};
    c.set_result(sum(diagonal(x, 0, 1, 2), IntList(last, 1)));
  }
  static Tensor forward(Ctx<Trace>& ctx, const Tensor& x) {
    COGRAD_CHECK(x.dim() == 2, "trace: expected a matrix, but got tensor with dim ", x.dim());
    COGRAD_CHECK_NOT_IMPLEMENTED(x.dtype() != DType::Bool, "\"trace\" not implemented for 'Bool'");
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    const Tensor d = raw_contiguous(diagonal_region(x, 0, 0, 1));
    return sum_to(is_integral(x.dtype()) ? raw_cast(d, DType::Int64) : d, {});
  }
  static Tensor backward(Ctx<Trace>& ctx, const Tensor& g) {
    const int64_t n = std::min(ctx->sizes[0], ctx->sizes[1]);
    return diagonal_backward(expand(g, Dims{n}), ctx->sizes, 0, 0, 1);
  }
};
COGRAD_OP(Trace)

}  // namespace

Tensor diag_embed(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  return apply<DiagEmbed>(x, offset, dim1, dim2);
}
Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  return apply<Diagonal>(x, offset, dim1, dim2);
}
Tensor diagonal_backward(const Tensor& g, IntList sizes, int64_t offset, int64_t dim1,
                         int64_t dim2) {
  return apply<DiagonalBackward>(g, sizes, offset, dim1, dim2);
}

}  // namespace cograd
