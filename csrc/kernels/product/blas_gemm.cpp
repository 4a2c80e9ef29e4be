// SPDX-License-Identifier: BSD-3-Clause
// Computes complex products, and all products by a chosen library, in blocks for several threads.
#include "kernels/product/blas_gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cograd/error.h"
#include "kernels/libraries/blas.h"
#include "kernels/libraries/blas_guard.h"
#include "tensor/threads.h"

namespace cograd::kernels {

namespace {

constexpr int64_t kBatchWork = 1 << 18;     // multiplications per piece of a batch
constexpr int64_t kWholeProducts = 8;       // batches of at least so many products are not cut,
constexpr int64_t kLargeProduct = 1 << 26;  // unless the products are large
constexpr int kSplitBits = 21;              // products of at least 2^21 multiplications are cut,
constexpr double kPacking = 1.0 / 128;      // into more than two if that packs less than this

int trans(bool t) { return t ? kTrans : kNoTrans; }

// A real scalar in the form in which OpenBLAS reads complex scalars.
struct ComplexNumber {
  ComplexNumber(DType t, double v) : single(static_cast<float>(v)), wide(v), type(t) {}
  const void* get() const {
    return type == DType::Complex64 ? static_cast<const void*>(&single) : &wide;
  }
  Complex<float> single;
  Complex<double> wide;
  DType type;
};

template <class P>
P* at(DType t, P* p, int64_t elements) {
  using Byte = std::conditional_t<std::is_const_v<P>, const char, char>;
  return static_cast<Byte*>(p) + elements * dtype_size(t);
}

int narrow_int(int64_t v, const char* what) {
  COGRAD_CHECK(v <= std::numeric_limits<int>::max(), "matmul: ", what, " is ", v,
               ", expected at most 2147483647");
  return static_cast<int>(v);
}

// Computes one product on this thread.
void multiply(DType t, const GemmArgs& g) {
  const int m = narrow_int(g.m, "m"), n = narrow_int(g.n, "n"), k = narrow_int(g.k, "k");
  const int lda = narrow_int(g.lda, "lda"), ldb = narrow_int(g.ldb, "ldb");
  const int ldc = narrow_int(g.ldc, "ldc");
  const BlasCall call(!is_complex(t));
  const Blas& b = chosen_blas();
  if (t == DType::Float32) {
    b.sgemm(kRowMajor, trans(g.ta), trans(g.tb), m, n, k, static_cast<float>(g.alpha),
            static_cast<const float*>(g.a), lda, static_cast<const float*>(g.b), ldb,
            static_cast<float>(g.beta), static_cast<float*>(g.c), ldc);
  } else if (is_complex(t)) {
    const auto product = t == DType::Complex64 ? b.cgemm : b.zgemm;
    const ComplexNumber alpha(t, g.alpha), beta(t, g.beta);
    product(kRowMajor, trans(g.ta), trans(g.tb), m, n, k, alpha.get(), g.a, lda, g.b, ldb,
            beta.get(), g.c, ldc);
  } else {
    b.dgemm(kRowMajor, trans(g.ta), trans(g.tb), m, n, k, g.alpha, static_cast<const double*>(g.a),
            lda, static_cast<const double*>(g.b), ldb, g.beta, static_cast<double*>(g.c), ldc);
  }
}

// Returns rows [i0, i1) and columns [j0, j1) of the result as a separate product.
GemmArgs block_of(DType t, const GemmArgs& g, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  GemmArgs r = g;
  r.m = i1 - i0;
  r.n = j1 - j0;
  r.a = at(t, g.a, g.ta ? i0 : i0 * g.lda);
  r.b = at(t, g.b, g.tb ? j0 * g.ldb : j0);
  r.c = at(t, g.c, i0 * g.ldc + j0);
  return r;
}

// Cuts a product into blocks that several threads can compute.
struct Grid {
  int64_t rows = 1, cols = 1;
  int64_t pieces() const { return rows * cols; }
};

// Depends on the shape alone: how OpenBLAS adds depends on a block's size and edges, so equal
// blocks make results independent of the number of threads. There are cbrt(work) / 128 blocks, at
// least two (sixteen at 2048 x 2048 x 2048), which costs one thread at most 3 % in packing.
Grid grid_of(const GemmArgs& g) {
  const double work =
      static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  const int log2_work = std::ilogb(std::max(work, 1.0));
  if (log2_work < kSplitBits) return {};
  const auto m = static_cast<double>(g.m), n = static_cast<double>(g.n);
  for (int bits = std::clamp(log2_work / 3 - 7, 1, 6);; --bits) {
    Grid best;
    double extra = std::numeric_limits<double>::infinity();  // elements packed per multiplication
    for (int64_t rows = 1, cols = int64_t{1} << bits; cols > 0; rows *= 2, cols /= 2) {
      const double cost = static_cast<double>(rows - 1) / m + static_cast<double>(cols - 1) / n;
      if (cost >= extra) continue;
      extra = cost;
      best = {rows, cols};
    }
    if (bits == 1 || extra <= kPacking) return best;
  }
}

// Computes block `i` of the grid. Its edges are multiples of 16, so it may be empty.
void grid_block(DType t, const GemmArgs& g, const Grid& grid, int64_t i) {
  const auto edge = [](int64_t size, int64_t parts, int64_t at) {
    return at == parts ? size : std::min(size, (size * at / parts + 15) / 16 * 16);
  };
  const int64_t r = i / grid.cols, c = i % grid.cols;
  const int64_t i0 = edge(g.m, grid.rows, r), i1 = edge(g.m, grid.rows, r + 1);
  const int64_t j0 = edge(g.n, grid.cols, c), j1 = edge(g.n, grid.cols, c + 1);
  if (i0 < i1 && j0 < j1) multiply(t, block_of(t, g, i0, i1, j0, j1));
}

}  // namespace

void blas_gemm(DType t, const GemmArgs& g, bool split) {
  const Grid grid = split ? grid_of(g) : Grid{};
  if (grid.pieces() == 1) return multiply(t, g);
  parallel_for(0, grid.pieces(), 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) grid_block(t, g, grid, lo);
  });
}

void blas_gemm_batched(DType t, const GemmArgs& g, const BatchSteps& s, int64_t batch) {
  // Decide from the shape alone which products are cut into blocks.
  const int64_t work = std::max<int64_t>(1, g.m * g.n * g.k);
  const Grid grid = batch >= kWholeProducts && work < kLargeProduct ? Grid{} : grid_of(g);
  const int64_t pieces = grid.pieces();
  parallel_for(0, batch * pieces, std::max<int64_t>(1, kBatchWork / work),
               [&](int64_t lo, int64_t hi) {
                 for (; lo < hi; ++lo)
                   grid_block(t, s.product(t, g, lo / pieces), grid, lo % pieces);
               });
}

void blas_gemv(DType t, bool ta, int64_t m, int64_t n, double alpha, const void* a, int64_t lda,
               const void* x, int64_t incx, double beta, void* y, int64_t incy) {
  const int im = narrow_int(m, "m"), in = narrow_int(n, "n"), ld = narrow_int(lda, "lda");
  const int ix = narrow_int(incx, "incx"), iy = narrow_int(incy, "incy");
  const BlasCall call(!is_complex(t));
  const Blas& b = chosen_blas();
  if (t == DType::Float32) {
    b.sgemv(kRowMajor, trans(ta), im, in, static_cast<float>(alpha), static_cast<const float*>(a),
            ld, static_cast<const float*>(x), ix, static_cast<float>(beta), static_cast<float*>(y),
            iy);
  } else if (is_complex(t)) {
    const auto product = t == DType::Complex64 ? b.cgemv : b.zgemv;
    const ComplexNumber scale(t, alpha), keep(t, beta);
    product(kRowMajor, trans(ta), im, in, scale.get(), a, ld, x, ix, keep.get(), y, iy);
  } else {
    b.dgemv(kRowMajor, trans(ta), im, in, alpha, static_cast<const double*>(a), ld,
            static_cast<const double*>(x), ix, beta, static_cast<double*>(y), iy);
  }
}

}  // namespace cograd::kernels
