// SPDX-License-Identifier: BSD-3-Clause
// Dispatches matrix products: cograd's own, those of a chosen library, and plain loops.
#include "kernels/product/gemm.h"

#include <algorithm>
#include <vector>

#include "cograd/error.h"
#include "kernels/libraries/blas.h"
#include "kernels/product/blas_gemm.h"
#include "kernels/product/gemv_loops.h"
#include "kernels/product/own_gemm.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

namespace {

constexpr int64_t kVectorGrain = 1 << 16;  // matrix elements per piece of a loop
constexpr int64_t kDotGrain = 1 << 16;

bool is_real_blas(DType t) { return t == DType::Float32 || t == DType::Float64; }
bool by_blas(DType t) { return is_complex(t) || (is_real_blas(t) && chose_blas()); }
bool by_own(DType t) { return is_half(t) || (is_real_blas(t) && !chose_blas()); }

const void* at(DType t, const void* p, int64_t elements) {
  return static_cast<const char*>(p) + elements * dtype_size(t);
}
void* at(DType t, void* p, int64_t elements) {
  return static_cast<char*>(p) + elements * dtype_size(t);
}

// Returns a row length that BLAS accepts: at least the size of a row, even with one row or none.
int64_t row_length(int64_t rows, int64_t cols, int64_t ld, const char* name) {
  if (rows <= 1) return std::max<int64_t>(cols, 1);
  COGRAD_CHECK(ld >= cols, "matmul: row length of ", name, " is ", ld, ", expected at least ",
               cols);
  return std::max<int64_t>(ld, 1);
}

// True if alpha is zero in the dtype: as in BLAS, A and B are then not read.
bool vanishes(DType t, double alpha) {
  return alpha == 0 || (t != DType::Float64 && t != DType::Complex128 && is_floating(t) &&
                        static_cast<float>(alpha) == 0);
}

GemmArgs checked(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const void* a,
                 int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc) {
  return {ta,
          tb,
          m,
          n,
          k,
          k == 0 ? 0 : alpha,  // or -0.0 could result
          a,
          row_length(ta ? k : m, ta ? m : k, lda, "a"),
          b,
          row_length(tb ? n : k, tb ? k : n, ldb, "b"),
          beta,
          c,
          row_length(m, n, ldc, "c")};
}

void gemv_part(DType t, bool ta, int64_t m, int64_t n, double alpha, const void* a, int64_t lda,
               const void* x, int64_t incx, double beta, void* y, int64_t incy, bool split) {
  const int64_t out = ta ? n : m, terms = vanishes(t, alpha) ? 0 : ta ? m : n;
  if (out == 0) return;
  if (terms == 0) alpha = 0;
  if (terms > 0 && by_own(t) && incx >= 0 && incy > 0)
    return own_gemv(t, ta, m, n, alpha, a, lda, x, incx, beta, y, incy, split);
  if (terms == 0 || !by_blas(t) || incx <= 0 || incy <= 0) {
    // Treat x and y as one-column matrices: their increments are row lengths.
    COGRAD_CHECK(incx >= 0 && incy > 0, "mv: increments are ", incx, " and ", incy,
                 ", expected non-negative ones");
    const GemmArgs g{ta, false, out, 1, terms, alpha, a, lda, x, incx, beta, y, incy};
    parallel_for(0, out, std::max<int64_t>(1, kVectorGrain / std::max<int64_t>(terms, 1)),
                 [&](int64_t lo, int64_t hi) { gemm_small(t, g, lo, hi); });
    return;
  }
  const int64_t grain = std::max<int64_t>(16, kVectorGrain / terms / 16 * 16);
  parallel_for(0, out, grain, [&](int64_t lo, int64_t hi) {
    const int64_t rows = ta ? m : hi - lo, cols = ta ? hi - lo : n;
    blas_gemv(t, ta, rows, cols, alpha, at(t, a, ta ? lo : lo * lda), lda, x, incx, beta,
              at(t, y, lo * incy), incy);
  });
}

// Computes a product with one row or one column as a matrix-vector product. For a single element,
// an operand that is contiguous is the matrix, so that its row runs along k.
void vector_gemm(DType t, const GemmArgs& g, bool split) {
  const bool one = g.m == 1 && g.n == 1;
  const bool row_of_a = one && (!g.ta || g.lda == 1);
  const bool row_of_b = one && !row_of_a && (g.tb || g.ldb == 1);
  const int64_t step_a = g.ta ? g.lda : 1, step_b = g.tb ? 1 : g.ldb;  // along k
  if (row_of_a || row_of_b)
    return gemv_part(t, false, 1, g.k, g.alpha, row_of_a ? g.a : g.b, g.k, row_of_a ? g.b : g.a,
                     row_of_a ? step_b : step_a, g.beta, g.c, 1, split);
  if (g.m == 1)
    return gemv_part(t, !g.tb, g.tb ? g.n : g.k, g.tb ? g.k : g.n, g.alpha, g.b, g.ldb, g.a, step_a,
                     g.beta, g.c, 1, split);
  gemv_part(t, g.ta, g.ta ? g.k : g.m, g.ta ? g.m : g.k, g.alpha, g.a, g.lda, g.b, step_b, g.beta,
            g.c, g.ldc, split);
}

bool is_vector(const GemmArgs& g) { return g.m == 1 || g.n == 1; }

void run(DType t, const GemmArgs& g, bool split) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k > 0 && (is_half(t) || is_real_blas(t) || is_complex(t))) {
    if (is_vector(g)) return vector_gemm(t, g, split);
    return by_own(t) ? own_gemm(t, g, split) : blas_gemm(t, g, split);
  }
  const int64_t grain =
      split ? std::max<int64_t>(1, kVectorGrain / (g.n * std::max<int64_t>(g.k, 1))) : g.m;
  parallel_for(0, g.m, grain, [&](int64_t lo, int64_t hi) { gemm_small(t, g, lo, hi); });
}

}  // namespace

void gemm(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const void* a,
          int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc) {
  COGRAD_SLOT(gemm, t, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  HeavyScope heavy(m * n * k / 8);
  if (vanishes(t, alpha)) k = 0;
  run(t, checked(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), true);
}

void gemm_here(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void* a,
               int64_t lda, const void* b, int64_t ldb, bool add, void* c, int64_t ldc) {
  run(t, checked(ta, tb, m, n, k, 1, a, lda, b, ldb, add ? 1 : 0, c, ldc), false);
}

void gemm_batched(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha,
                  const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                  int64_t stride_b, double beta, void* c, int64_t ldc, int64_t stride_c,
                  int64_t batch) {
  COGRAD_SLOT(gemm_batched, t, ta, tb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c,
              ldc, stride_c, batch);
  if (batch == 0 || m == 0 || n == 0) return;
  HeavyScope heavy(m * n * k / 8 * batch);
  if (vanishes(t, alpha)) k = 0;
  const GemmArgs g = checked(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (stride_b == 0 && !ta && stride_a == m * g.lda && stride_c == m * g.ldc) {
    GemmArgs one = g;
    one.m = m * batch;
    return run(t, one, true);
  }
  const BatchSteps steps{stride_a, stride_b, stride_c};
  if (k > 0 && !is_vector(g)) {
    if (by_own(t)) return own_gemm_batched(t, g, steps, batch);
    if (by_blas(t)) return blas_gemm_batched(t, g, steps, batch);
  }
  constexpr int64_t kBatchWork = 1 << 18;  // multiplications per piece
  const int64_t work = std::max<int64_t>(1, m * n * k);
  parallel_for(0, batch, std::max<int64_t>(1, kBatchWork / work), [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) run(t, steps.product(t, g, lo), batch == 1);
  });
}

void gemv(DType t, bool ta, int64_t m, int64_t n, double alpha, const void* a, int64_t lda,
          const void* x, int64_t incx, double beta, void* y, int64_t incy) {
  COGRAD_SLOT(gemv, t, ta, m, n, alpha, a, lda, x, incx, beta, y, incy);
  HeavyScope heavy(m * n);
  gemv_part(t, ta, m, n, alpha, a, row_length(m, n, lda, "a"), x, incx, beta, y, incy, true);
}

void dot(DType t, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy, void* out) {
  COGRAD_SLOT(dot, t, n, x, incx, y, incy, out);
  HeavyScope heavy(n);
  if (!is_real_blas(t) || incx < 0 || incy < 0) return dot_small(t, n, x, incx, y, incy, out);
  if (n <= kDotGrain) {
    const double sum = gemv_loops().dot(t, n, x, incx, y, incy);
    if (t == DType::Float32)
      *static_cast<float*>(out) = static_cast<float>(sum);
    else
      *static_cast<double*>(out) = sum;
    return;
  }
  const int64_t pieces = divide_up(n, kDotGrain);
  std::vector<double> partial(static_cast<size_t>(pieces));
  parallel_for(0, pieces, 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const int64_t first = lo * kDotGrain;
      partial[static_cast<size_t>(lo)] =
          gemv_loops().dot(t, std::min(kDotGrain, n - first), at(t, x, first * incx), incx,
                           at(t, y, first * incy), incy);
    }
  });
  double total = 0;
  for (double p : partial) total += p;
  if (t == DType::Float32) {
    *static_cast<float*>(out) = static_cast<float>(total);
  } else {
    *static_cast<double*>(out) = total;
  }
}

void ger(DType t, int64_t m, int64_t n, double alpha, const void* x, int64_t incx, const void* y,
         int64_t incy, double beta, void* a, int64_t lda) {
  COGRAD_SLOT(ger, t, m, n, alpha, x, incx, y, incy, beta, a, lda);
  if (m == 0 || n == 0) return;
  HeavyScope heavy(m * n);
  parallel_for(0, m, std::max<int64_t>(1, kVectorGrain / n), [&](int64_t lo, int64_t hi) {
    ger_small(t, hi - lo, n, alpha, at(t, x, lo * incx), incx, y, incy, beta, at(t, a, lo * lda),
              lda);
  });
}

}  // namespace cograd::kernels
