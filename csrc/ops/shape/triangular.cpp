// SPDX-License-Identifier: BSD-3-Clause
// Triangles and diagonals of matrices.
#include "ops/shape/geometry.h"

#include <cstring>
#include <limits>

#include "ops/core/ops.h"
#include "ops/core/raw.h"
#include "tensor/threads.h"

namespace cograd {

namespace {

// Copies the kept part of each row of x to out (both contiguous, may be the same) and zeros the
// rest. Column c of row r is kept if c - r <= diagonal (lower) or c - r >= diagonal (upper).
void raw_triangle(const Tensor& out, const Tensor& x, int64_t diagonal, bool upper) {
  const int64_t rows = x.size(-2);
  const int64_t cols = x.size(-1);
  if (x.numel() == 0) return;
  const int64_t item = x.itemsize();
  const int64_t all = x.numel() / cols;
  HeavyScope heavy(x.numel());
  parallel_for(0, all, std::max<int64_t>(1, 32768 / cols), [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i) {
      const int64_t r = i % rows;
      // No sum that could overflow: the diagonal is clamped to where it matters first.
      const int64_t shift = std::clamp(diagonal, -rows - 1, cols + 1);
      const int64_t cut = std::clamp<int64_t>(r + shift + (upper ? 0 : 1), 0, cols);
      char* to = out.bytes() + i * cols * item;
      const char* from = x.bytes() + i * cols * item;
      const int64_t keep_from = upper ? cut : 0;
      const int64_t keep_to = upper ? cols : cut;
      if (to != from)
        std::memcpy(to + keep_from * item, from + keep_from * item,
                    static_cast<size_t>((keep_to - keep_from) * item));
      std::memset(to, 0, static_cast<size_t>(keep_from * item));
      std::memset(to + keep_to * item, 0, static_cast<size_t>((cols - keep_to) * item));
    }
  });
}

struct DiagonalState {
  int64_t diagonal;
};

template <class Op>
Tensor triangle(Ctx<Op>& ctx, const Tensor& x, int64_t diagonal, bool upper) {
  COGRAD_CHECK(x.dim() >= 2, Op::spec.name, ": input tensor must have at least 2 dimensions, got ",
               x.dim());
  ctx->diagonal = diagonal;
  const Tensor in = raw_contiguous(x);
  Tensor out = ctx.out(x.sizes(), x.dtype());
  if (!out.is_contiguous()) out = empty(x.sizes(), x.dtype());
  raw_triangle(out, in, diagonal, upper);
  return out;
}

struct Tril {
  static constexpr OpSpec spec{"tril",
                               "input, diagonal=0",
                               kElementwise,
                               "The lower triangle of matrices, the other elements 0.",
                               "T(3, 4); T(4, 3), -1; T(2, 3, 3), 1",
                               "np.tril(input, diagonal)"};
  using State = DiagonalState;
  static Tensor forward(Ctx<Tril>& ctx, const Tensor& x, int64_t diagonal) {
    return triangle(ctx, x, diagonal, false);
  }
  static Tensor backward(Ctx<Tril>& ctx, const Tensor& g) { return tril(g, ctx->diagonal); }
};
COGRAD_OP(Tril)

struct Triu {
  static constexpr OpSpec spec{"triu",
                               "input, diagonal=0",
                               kElementwise,
                               "The upper triangle of matrices, the other elements 0.",
                               "T(3, 4); T(4, 3), -1; T(2, 3, 3), 1",
                               "np.triu(input, diagonal)"};
  using State = DiagonalState;
  static Tensor forward(Ctx<Triu>& ctx, const Tensor& x, int64_t diagonal) {
    return triangle(ctx, x, diagonal, true);
  }
  static Tensor backward(Ctx<Triu>& ctx, const Tensor& g) { return triu(g, ctx->diagonal); }
};
COGRAD_OP(Triu)

struct DiagEmbed {
  static constexpr OpSpec spec{"diag_embed",
                               "input, offset=0, dim1=-2, dim2=-1",
                               kFunctional,
                               "Matrices with the last dim of the input on a diagonal.",
                               "T(3); T(2, 3), 1; T(2, 3), -1, 0, 2",
                               ""};
  struct State {
    int64_t offset;
    int64_t dim1;
    int64_t dim2;
  };
  static Tensor forward(Ctx<DiagEmbed>& ctx, const Tensor& x, int64_t offset, int64_t dim1,
                        int64_t dim2) {
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
  static constexpr OpSpec spec{"_diagonal_copy", "input, offset", kInternal,
                               "A copy of a matrix's diagonal.", "none: diag"};
  static constexpr const char* kNodeName = "DiagonalBackward0_copy";
  struct State {
    Dims sizes;
    int64_t offset;
  };
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
                               kFunctional | kOut,
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
                               kFunctional,
                               "The matrix with the flattened tensor on a diagonal.",
                               "T(3); T(2, 2), 1; T()",
                               "np.diagflat(input, offset)"};
  static Tensor forward(const Tensor& x, int64_t offset) { return diag_embed(flatten(x), offset); }
};
COGRAD_OP(Diagflat)

struct Trace {
  static constexpr OpSpec spec{
      "trace",          "input", kFunctional, "Sum of a matrix's diagonal.", "T(3, 4); T(3, 3)",
      "np.trace(input)"};
  struct State {
    Dims sizes;
  };
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

Tensor tril(const Tensor& x, int64_t diagonal) { return apply<Tril>(x, diagonal); }
Tensor triu(const Tensor& x, int64_t diagonal) { return apply<Triu>(x, diagonal); }
Tensor diag_embed(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  return apply<DiagEmbed>(x, offset, dim1, dim2);
}

}  // namespace cograd
