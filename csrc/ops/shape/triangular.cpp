// SPDX-License-Identifier: BSD-3-Clause
// Triangular parts of matrices.
#include "ops/shape/geometry.h"

#include <cstring>
#include <limits>

#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"
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
      // Clamps the diagonal first, so that no sum can overflow.
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
