// SPDX-License-Identifier: BSD-3-Clause
// Dispatches matrix products to OpenBLAS, to the small kernel and to converted copies.
#include "kernels/product/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cograd/error.h"
#include "kernels/core/isa.h"
#include "kernels/libraries/blas.h"
#include "kernels/libraries/blas_guard.h"
#include "kernels/product/gemm_small.h"
#include "kernels/product/gemm_tile.h"
#include "tensor/threads.h"

extern "C" {
float scipy_cblas_sdot(int n, const float* x, int incx, const float* y, int incy);
double scipy_cblas_ddot(int n, const double* x, int incx, const double* y, int incy);
char* scipy_openblas_get_corename();
}

namespace cograd::kernels {

COGRAD_ISA_VALUE(GemmTile, gemm_tile)

namespace {

// 16-bit products up to this size skip the conversion to float arrays.
constexpr int64_t kTinyHalfWork = 8 * 8 * 8;
constexpr int64_t kBatchWork = 1 << 18;     // multiplications per piece of a batch
constexpr int64_t kWholeProducts = 8;       // batches of at least so many products are not cut,
constexpr int64_t kLargeProduct = 1 << 26;  // unless the products are large
constexpr int kSplitBits = 21;              // products of at least 2^21 multiplications are cut,
constexpr double kPacking = 1.0 / 128;      // into more than two if that packs less than this
constexpr int64_t kVectorGrain = 1 << 16;   // matrix elements per piece of a gemv
constexpr int64_t kDotGrain = 1 << 16;
constexpr int64_t kTileColumns = 8;  // products with fewer columns take longer in tiles

int trans(bool t) { return t ? kTrans : kNoTrans; }

bool is_real_blas(DType t) { return t == DType::Float32 || t == DType::Float64; }
bool is_blas(DType t) { return is_real_blas(t) || is_complex(t); }

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

template <class T = char>
const T* at(DType t, const void* p, int64_t elements) {
  return reinterpret_cast<const T*>(static_cast<const char*>(p) + elements * dtype_size(t));
}
template <class T = char>
T* at(DType t, void* p, int64_t elements) {
  return reinterpret_cast<T*>(static_cast<char*>(p) + elements * dtype_size(t));
}

int narrow_int(int64_t v, const char* what) {
  COGRAD_CHECK(v <= std::numeric_limits<int>::max(), "matmul: ", what, " is ", v,
               ", expected at most 2147483647");
  return static_cast<int>(v);
}

// Computes one product on this thread.
void blas_gemm(DType t, const GemmArgs& g) {
  const int m = narrow_int(g.m, "m"), n = narrow_int(g.n, "n"), k = narrow_int(g.k, "k");
  const int lda = narrow_int(g.lda, "lda"), ldb = narrow_int(g.ldb, "ldb");
  const int ldc = narrow_int(g.ldc, "ldc");
  const BlasCall call;
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

// True if OpenBLAS uses AVX-512; it then has kernels for small products, too.
bool blas_is_wide() {
  static const bool has = [] {
    const std::string_view core = scipy_openblas_get_corename();
    return core == "SkylakeX" || core == "Cooperlake" || core == "Sapphirerapids";
  }();
  return has;
}

// Computes one product on this thread. Uses tiles if these have wider vectors than OpenBLAS, which
// uses AVX2 on processors it does not know and where its environment variable requests that.
void whole_gemm(DType t, const GemmArgs& g) {
  if (is_real_blas(t) && g.n >= kTileColumns && isa() == Isa::v4 && !blas_is_wide())
    return gemm_tile().run(t, g);
  blas_gemm(t, g);
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
  if (i0 < i1 && j0 < j1) whole_gemm(t, block_of(t, g, i0, i1, j0, j1));
}

// True if the product is too small to be cut and is faster in register tiles. Without its small
// kernels OpenBLAS takes up to twice as long; with them, only for a transposed B.
bool takes_tiles(DType t, const GemmArgs& g) {
  if (!is_real_blas(t) || g.n < kTileColumns) return false;
  if (static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) >=
      static_cast<double>(int64_t{1} << kSplitBits))
    return false;
  if (g.tb) return isa() == Isa::v4 || t == DType::Float32;
  return !blas_is_wide();
}

// Computes a product in blocks if `split`, else in one piece on this thread.
void float_gemm(DType t, const GemmArgs& g, bool split) {
  if (takes_tiles(t, g)) return gemm_tile().run(t, g);
  const Grid grid = split ? grid_of(g) : Grid{};
  if (grid.pieces() == 1) return whole_gemm(t, g);
  parallel_for(0, grid.pieces(), 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) grid_block(t, g, grid, lo);
  });
}

// Convert rows x cols elements with row length ld to float and back.
template <class T>
std::unique_ptr<float[]> to_float(const void* p, int64_t rows, int64_t cols, int64_t ld) {
  std::unique_ptr<float[]> out(new float[static_cast<size_t>(rows * cols)]);
  parallel_for(0, rows, std::max<int64_t>(1, kVectorGrain / cols), [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i) {
      const T* src = static_cast<const T*>(p) + i * ld;
      for (int64_t j = 0; j < cols; ++j) out[static_cast<size_t>(i * cols + j)] = src[j];
    }
  });
  return out;
}

template <class T>
void half_gemm(DType t, const GemmArgs& g, bool split) {
  if (g.m * g.n * g.k <= kTinyHalfWork) return gemm_small(t, g, 0, g.m);
  GemmArgs f = g;
  f.lda = g.ta ? g.m : g.k;
  f.ldb = g.tb ? g.k : g.n;
  f.ldc = g.n;
  const auto a = to_float<T>(g.a, g.ta ? g.k : g.m, f.lda, g.lda);
  const auto b = to_float<T>(g.b, g.tb ? g.n : g.k, f.ldb, g.ldb);
  const auto c = g.beta == 0 ? std::unique_ptr<float[]>(new float[static_cast<size_t>(g.m * g.n)])
                             : to_float<T>(g.c, g.m, g.n, g.ldc);
  f.a = a.get();
  f.b = b.get();
  f.c = c.get();
  float_gemm(DType::Float32, f, split);
  for (int64_t i = 0; i < g.m; ++i) {
    T* dst = static_cast<T*>(g.c) + i * g.ldc;
    for (int64_t j = 0; j < g.n; ++j) dst[j] = T(c[static_cast<size_t>(i * g.n + j)]);
  }
}

// Computes a product with one row or one column as a matrix-vector product.
void vector_gemm(DType t, const GemmArgs& g) {
  if (g.m == 1)
    return gemv(t, !g.tb, g.tb ? g.n : g.k, g.tb ? g.k : g.n, g.alpha, g.b, g.ldb, g.a,
                g.ta ? g.lda : 1, g.beta, g.c, 1);
  gemv(t, g.ta, g.ta ? g.k : g.m, g.ta ? g.m : g.k, g.alpha, g.a, g.lda, g.b, g.tb ? 1 : g.ldb,
       g.beta, g.c, g.ldc);
}

void run(DType t, const GemmArgs& g, bool split) {
  if (g.m == 0 || g.n == 0) return;
  if ((g.m == 1 || g.n == 1) && g.k > 0 && is_blas(t)) return vector_gemm(t, g);
  if (g.k > 0 && is_blas(t)) return float_gemm(t, g, split);
  if (g.k > 0 && t == DType::Float16) return half_gemm<Half>(t, g, split);
  if (g.k > 0 && t == DType::BFloat16) return half_gemm<BFloat16>(t, g, split);
  const int64_t grain =
      split ? std::max<int64_t>(1, kVectorGrain / (g.n * std::max<int64_t>(g.k, 1))) : g.m;
  parallel_for(0, g.m, grain, [&](int64_t lo, int64_t hi) { gemm_small(t, g, lo, hi); });
}

// Returns a row length that BLAS accepts: at least the size of a row, even with one row or none.
int64_t row_length(int64_t rows, int64_t cols, int64_t ld, const char* name) {
  if (rows <= 1) return std::max<int64_t>(cols, 1);
  COGRAD_CHECK(ld >= cols, "matmul: row length of ", name, " is ", ld, ", expected at least ",
               cols);
  return std::max<int64_t>(ld, 1);
}

GemmArgs checked(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const void* a,
                 int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc) {
  return {ta,
          tb,
          m,
          n,
          k,
          alpha,
          a,
          row_length(ta ? k : m, ta ? m : k, lda, "a"),
          b,
          row_length(tb ? n : k, tb ? k : n, ldb, "b"),
          beta,
          c,
          row_length(m, n, ldc, "c")};
}

}  // namespace

void gemm(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const void* a,
          int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc) {
  HeavyScope heavy(m * n * k / 8);
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
  if (batch == 0 || m == 0 || n == 0) return;
  HeavyScope heavy(m * n * k / 8 * batch);
  const GemmArgs g = checked(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (stride_b == 0 && !ta && stride_a == m * g.lda && stride_c == m * g.ldc) {
    GemmArgs one = g;
    one.m = m * batch;
    return run(t, one, true);
  }
  const auto product = [&](int64_t i) {
    GemmArgs one = g;
    one.a = at(t, a, i * stride_a);
    one.b = at(t, b, i * stride_b);
    one.c = at(t, c, i * stride_c);
    return one;
  };
  // Decide from the shape alone which products are cut into blocks.
  const int64_t work = std::max<int64_t>(1, m * n * k);
  if (batch >= kWholeProducts && work < kLargeProduct) {
    parallel_for(0, batch, std::max<int64_t>(1, kBatchWork / work), [&](int64_t lo, int64_t hi) {
      for (; lo < hi; ++lo) run(t, product(lo), false);
    });
  } else if (k > 0 && is_blas(t)) {
    const Grid grid = grid_of(g);
    const int64_t pieces = grid.pieces();
    parallel_for(0, batch * pieces, std::max<int64_t>(1, kBatchWork / work),
                 [&](int64_t lo, int64_t hi) {
                   for (; lo < hi; ++lo) grid_block(t, product(lo / pieces), grid, lo % pieces);
                 });
  } else {
    for (int64_t i = 0; i < batch; ++i) run(t, product(i), true);
  }
}

namespace {

// Computes rows [lo, hi) of a matrix-vector product.
void blas_gemv(DType t, bool ta, int64_t m, int64_t n, double alpha, const void* a, int64_t lda,
               const void* x, int64_t incx, double beta, void* y, int64_t incy) {
  const int im = narrow_int(m, "m"), in = narrow_int(n, "n"), ld = narrow_int(lda, "lda");
  const int ix = narrow_int(incx, "incx"), iy = narrow_int(incy, "incy");
  const BlasCall call;
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

}  // namespace

void gemv(DType t, bool ta, int64_t m, int64_t n, double alpha, const void* a, int64_t lda,
          const void* x, int64_t incx, double beta, void* y, int64_t incy) {
  const int64_t out = ta ? n : m, terms = ta ? m : n;
  if (out == 0) return;
  HeavyScope heavy(m * n);
  lda = row_length(m, n, lda, "a");
  if (terms == 0 || !is_blas(t) || incx <= 0 || incy <= 0) {
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

void dot(DType t, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy, void* out) {
  HeavyScope heavy(n);
  if (!is_real_blas(t) || incx < 0 || incy < 0) return dot_small(t, n, x, incx, y, incy, out);
  const int64_t pieces = (n + kDotGrain - 1) / kDotGrain;
  std::vector<double> partial(static_cast<size_t>(pieces));
  parallel_for(0, pieces, 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const int64_t first = lo * kDotGrain;
      const int count = static_cast<int>(std::min(kDotGrain, n - first));
      const int ix = narrow_int(incx, "incx"), iy = narrow_int(incy, "incy");
      partial[static_cast<size_t>(lo)] =
          t == DType::Float32
              ? static_cast<double>(scipy_cblas_sdot(count, at<float>(t, x, first * incx), ix,
                                                     at<float>(t, y, first * incy), iy))
              : scipy_cblas_ddot(count, at<double>(t, x, first * incx), ix,
                                 at<double>(t, y, first * incy), iy);
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
  if (m == 0 || n == 0) return;
  HeavyScope heavy(m * n);
  parallel_for(0, m, std::max<int64_t>(1, kVectorGrain / n), [&](int64_t lo, int64_t hi) {
    ger_small(t, hi - lo, n, alpha, at(t, x, lo * incx), incx, y, incy, beta, at(t, a, lo * lda),
              lda);
  });
}

}  // namespace cograd::kernels
