// SPDX-License-Identifier: BSD-3-Clause
// Triangular parts of matrices.
#include "ops/shape/geometry.h"

#include "kernels/core/moves.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"

namespace cograd {

namespace {

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
  if (x.numel() > 0)
    kernels::triangle(x.itemsize(), out.bytes(), in.bytes(), x.numel() / x.size(-1), x.size(-2),
                      x.size(-1), diagonal, upper);
  return out;
}

struct Tril {
  static constexpr OpSpec spec{"tril",
                               "input, diagonal=0",
                               kForms | kShape | kExactOut,
                               "The lower triangle of matrices, the other elements 0.",
                               "T(3, 4); T(4, 3), -1; T(2, 3, 3), 1",
                               "np.tril(input, diagonal)"};
  using State = DiagonalState;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = leading(2);
  static Tensor forward(Ctx<Tril>& ctx, const Tensor& x, int64_t diagonal) {
    return triangle(ctx, x, diagonal, false);
  }
  static Tensor backward(Ctx<Tril>& ctx, const Tensor& g) { return tril(g, ctx->diagonal); }
};
COGRAD_OP(Tril)

struct Triu {
  static constexpr OpSpec spec{"triu",
                               "input, diagonal=0",
                               kForms | kShape | kExactOut,
                               "The upper triangle of matrices, the other elements 0.",
                               "T(3, 4); T(4, 3), -1; T(2, 3, 3), 1",
                               "np.triu(input, diagonal)"};
  using State = DiagonalState;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = leading(2);
  static Tensor forward(Ctx<Triu>& ctx, const Tensor& x, int64_t diagonal) {
    return triangle(ctx, x, diagonal, true);
  }
  static Tensor backward(Ctx<Triu>& ctx, const Tensor& g) { return triu(g, ctx->diagonal); }
};
COGRAD_OP(Triu)

}  // namespace

Tensor tril(const Tensor& x, int64_t diagonal) { return apply<Tril>(x, diagonal); }
Tensor triu(const Tensor& x, int64_t diagonal) { return apply<Triu>(x, diagonal); }

}  // namespace cograd
