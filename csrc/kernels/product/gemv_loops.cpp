// SPDX-License-Identifier: BSD-3-Clause
// Multiplies matrices by vectors. Compiled once per instruction set.
#include "kernels/product/gemv_loops.h"

#include "kernels/product/fused.h"
#include "kernels/product/gemm_tile.h"

namespace cograd::kernels::COGRAD_ISA {

GemvLoops gemv_loops();

namespace {

// The chains of a row's sum on every level: term p belongs to chain p modulo kChains. A dot product
// has twice as many, since it has no other sums to compute meanwhile.
template <class T>
constexpr int64_t kChains = 64 / sizeof(T);
template <class T>
constexpr int kVectors = kChains<T> / kLanes<T>;
constexpr int kRows = kVectorBytes >= 32 ? 4 : 2;  // rows that are multiplied at once

constexpr int64_t kRun = 2048;  // columns whose sums stay in the cache while A's rows are read
constexpr int kGroup = 4;       // rows of A that are read side by side

// Adds chain i + n / 2 to chain i for n = kChains, kChains / 2, ..., 2, for four rows. The shuffles
// bring the chains of different rows side by side.
#if defined(__AVX2__)
template <class T>
COGRAD_INLINE Vec<T, 32 / sizeof(T)> halve(const Vec<T, kLanes<T>>* sum) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const __m512 s = reinterpret_cast<__m512>(*sum);
    return reinterpret_cast<Vec<T, 8>>(_mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xFF, s, 0),
                                                     _mm512_maskz_extractf32x8_ps(0xFF, s, 1)));
  } else {
    const __m512d s = reinterpret_cast<__m512d>(*sum);
    return reinterpret_cast<Vec<T, 4>>(_mm256_add_pd(_mm512_maskz_extractf64x4_pd(0xF, s, 0),
                                                     _mm512_maskz_extractf64x4_pd(0xF, s, 1)));
  }
#else
  return sum[0] + sum[1];
#endif
}
COGRAD_INLINE void join(__m256 a, __m256 b, __m256 c, __m256 d, float* out) {
  const __m256 p =
      _mm256_add_ps(_mm256_permute2f128_ps(a, c, 0x20), _mm256_permute2f128_ps(a, c, 0x31));
  const __m256 q =
      _mm256_add_ps(_mm256_permute2f128_ps(b, d, 0x20), _mm256_permute2f128_ps(b, d, 0x31));
  const __m256 r = _mm256_add_ps(_mm256_shuffle_ps(p, q, 0x44), _mm256_shuffle_ps(p, q, 0xEE));
  const __m256 s = _mm256_add_ps(_mm256_shuffle_ps(r, r, 0x88), _mm256_shuffle_ps(r, r, 0xDD));
  _mm_storeu_ps(out, _mm_movelh_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}
COGRAD_INLINE void join(__m256d a, __m256d b, __m256d c, __m256d d, double* out) {
  const __m256d p =
      _mm256_add_pd(_mm256_permute2f128_pd(a, c, 0x20), _mm256_permute2f128_pd(a, c, 0x31));
  const __m256d q =
      _mm256_add_pd(_mm256_permute2f128_pd(b, d, 0x20), _mm256_permute2f128_pd(b, d, 0x31));
  _mm256_storeu_pd(out, _mm256_add_pd(_mm256_unpacklo_pd(p, q), _mm256_unpackhi_pd(p, q)));
}
template <class T, int R>
COGRAD_INLINE void add_chains(const Vec<T, kLanes<T>> (&sum)[R][kVectors<T>], T* out) {
  Vec<T, 32 / sizeof(T)> h[4];
  for (int r = 0; r < 4; ++r) h[r] = halve<T>(sum[r % R]);
  if constexpr (sizeof(T) == 4)
    join(reinterpret_cast<__m256>(h[0]), reinterpret_cast<__m256>(h[1]),
         reinterpret_cast<__m256>(h[2]), reinterpret_cast<__m256>(h[3]), out);
  else
    join(reinterpret_cast<__m256d>(h[0]), reinterpret_cast<__m256d>(h[1]),
         reinterpret_cast<__m256d>(h[2]), reinterpret_cast<__m256d>(h[3]), out);
}
#else
template <class T, int R>
COGRAD_INLINE void add_chains(const Vec<T, kLanes<T>> (&sum)[R][kVectors<T>], T* out) {
  for (int r = 0; r < R; ++r) {
    T chain[kChains<T>];
    for (int v = 0; v < kVectors<T>; ++v) store<T, kLanes<T>>(chain + v * kLanes<T>, sum[r][v]);
    for (int64_t n = kChains<T> / 2; n > 0; n /= 2)
      for (int64_t i = 0; i < n; ++i) chain[i] += chain[i + n];
    out[r] = chain[0];
  }
}
#endif

// Adds the products of R rows with x to V vectors of chains.
template <class T, int R, int V>
COGRAD_INLINE void add_terms(int64_t terms, const T* a, int64_t lda, const T* x,
                             Vec<T, kLanes<T>> (&sum)[R][V]) {
  constexpr int L = kLanes<T>;
  int64_t p = 0;
  for (; p + V * L <= terms; p += V * L) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const Vec<T, L> factor = load(x + p + v * L);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
        sum[r][v] = fused(load(a + r * lda + p + v * L), factor, sum[r][v]);
    }
  }
  if (p == terms) return;
  // Every chain without a term adds zero, on each level alike.
  for (int v = 0; v < V; ++v, p = std::min(p + L, terms)) {
    const int64_t count = std::min<int64_t>(terms - p, L);
    const Vec<T, L> factor = load_first(x + p, count);
    for (int r = 0; r < R; ++r)
      sum[r][v] = fused(load_first(a + r * lda + p, count), factor, sum[r][v]);
  }
}
// Does so for one row; not inlined.
template <class T, int V>
void add_row(int64_t terms, const T* a, const T* x, Vec<T, kLanes<T>> (&sum)[1][V]) {
  add_terms<T, 1, V>(terms, a, 0, x, sum);
}

// Writes y[first + i] = alpha * sum[i] + beta * y[first + i]; sum has room for whole vectors.
template <class T>
void put(const GemvArgs& g, int64_t first, int64_t count, T* sum) {
  constexpr int L = kLanes<T>;
  const Vec<T, L> alpha = broadcast(static_cast<T>(g.alpha));
  const T beta = static_cast<T>(g.beta);
  T* y = static_cast<T*>(g.y) + first * g.incy;
  for (int64_t j = 0; j < count; j += L) {
    T old[L] = {};
    for (int64_t i = 0; beta != T(0) && i < std::min<int64_t>(L, count - j); ++i)
      old[i] = beta * y[(j + i) * g.incy];
    store<T, L>(sum + j,
                beta == T(0) ? alpha * load(sum + j) : fused(alpha, load(sum + j), load(old)));
  }
  if (g.incy == 1)
    std::copy_n(sum, count, y);
  else
    for (int64_t j = 0; j < count; ++j) y[j * g.incy] = sum[j];
}

// Computes the sums of rows [i, i + R).
template <class T, int R>
COGRAD_INLINE void some_rows(const GemvArgs& g, int64_t i, T* total) {
  Vec<T, kLanes<T>> sum[R][kVectors<T>] = {};
  add_terms<T, R, kVectors<T>>(g.terms, static_cast<const T*>(g.a) + i * g.lda, g.lda,
                               static_cast<const T*>(g.x), sum);
  add_chains<T, R>(sum, total);
}

template <class T>
void rows_as(const GemvArgs& g) {
  constexpr int64_t kSome = 256;
  alignas(64) T total[kSome + 4];  // a sum of one row writes four
  for (int64_t first = 0; first < g.out; first += kSome) {
    const int64_t some = std::min(kSome, g.out - first);
    int64_t i = 0;
    for (; i + kRows <= some; i += kRows) some_rows<T, kRows>(g, first + i, total + i);
    for (; i < some; ++i) some_rows<T, 1>(g, first + i, total + i);
    put<T>(g, first, some, total);
  }
}

// Continues the chains of some columns with R rows of A.
template <class T, int R>
void add_rows(const T* a, int64_t lda, const T* x, int64_t cols, bool first, T* chain) {
  constexpr int L = kLanes<T>, V = 4;
  int64_t j = 0;
  for (; j + V * L <= cols; j += V * L) {
    Vec<T, L> sum[V] = {};
    if (!first)
      for (int v = 0; v < V; ++v) sum[v] = load(chain + j + v * L);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec<T, L> factor = broadcast(x[r]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[v] = fused(factor, load(a + r * lda + j + v * L), sum[v]);
    }
    for (int v = 0; v < V; ++v) store<T, L>(chain + j + v * L, sum[v]);
  }
  for (; j < cols; j += L) {
    const int64_t count = std::min<int64_t>(L, cols - j);
    Vec<T, L> sum = first ? Vec<T, L>{} : load(chain + j);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
      sum = fused(broadcast(x[r]), load_first(a + r * lda + j, count), sum);
    store<T, L>(chain + j, sum);
  }
}

// Computes up to kRun elements of y.
template <class T>
void run_of_columns(const GemvArgs& g, int64_t first, int64_t cols) {
  constexpr int L = kLanes<T>;
  const Vec<T, L> alpha = broadcast(static_cast<T>(g.alpha));
  const T beta = static_cast<T>(g.beta);
  const T* a = static_cast<const T*>(g.a) + first;
  const T* x = static_cast<const T*>(g.x);
  T* y = static_cast<T*>(g.y) + first * g.incy;
  alignas(64) T chain[kRun], sum[kRun];
  for (int64_t j = 0; j < (cols + L - 1) / L * L; ++j)
    sum[j] = beta == T(0) || j >= cols ? T(0) : beta * y[j * g.incy];
  bool fresh = beta == T(0);
  for (int64_t p = 0; p < g.terms; p += kSumBlock) {
    const int64_t end = std::min(g.terms, p + kSumBlock);
    int64_t q = p;
    for (; q + kGroup <= end; q += kGroup)
      add_rows<T, kGroup>(a + q * g.lda, g.lda, x + q, cols, q == p, chain);
    for (; q < end; ++q) add_rows<T, 1>(a + q * g.lda, g.lda, x + q, cols, q == p, chain);
    for (int64_t j = 0; j < cols; j += L) {
      const Vec<T, L> block = load(chain + j);
      store<T, L>(sum + j, fresh ? alpha * block : fused(alpha, block, load(sum + j)));
    }
    fresh = false;
  }
  if (g.incy == 1)
    std::copy_n(sum, cols, y);
  else
    for (int64_t j = 0; j < cols; ++j) y[j * g.incy] = sum[j];
}
template <class T>
void columns_as(const GemvArgs& g) {
  for (int64_t j = 0; j < g.out; j += kRun) run_of_columns<T>(g, j, std::min(kRun, g.out - j));
}

void rows(DType t, const GemvArgs& g) {
  t == DType::Float64 ? rows_as<double>(g) : rows_as<float>(g);
}
void columns(DType t, const GemvArgs& g) {
  t == DType::Float64 ? columns_as<double>(g) : columns_as<float>(g);
}

template <class T>
double dot_as(int64_t n, const T* x, int64_t incx, const T* y, int64_t incy) {
  constexpr int V = 2 * kVectors<T>, kSome = 512;
  Vec<T, kLanes<T>> sum[1][V] = {}, half[1][V / 2];
  if (incx == 1 && incy == 1) {
    add_row<T, V>(n, x, y, sum);
  } else {
    T a[kSome], b[kSome];
    for (int64_t i = 0; i < n; i += kSome) {
      const int64_t some = std::min<int64_t>(kSome, n - i);
      for (int64_t j = 0; j < some; ++j) a[j] = x[(i + j) * incx];
      for (int64_t j = 0; j < some; ++j) b[j] = y[(i + j) * incy];
      add_row<T, V>(some, a, b, sum);
    }
  }
  for (int v = 0; v < V / 2; ++v) half[0][v] = sum[0][v] + sum[0][v + V / 2];
  T total[4];
  add_chains<T, 1>(half, total);
  return static_cast<double>(total[0]);
}
double dot(DType t, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy) {
  if (t == DType::Float64)
    return dot_as(n, static_cast<const double*>(x), incx, static_cast<const double*>(y), incy);
  return dot_as(n, static_cast<const float*>(x), incx, static_cast<const float*>(y), incy);
}

}  // namespace

GemvLoops gemv_loops() { return {rows, columns, dot}; }

}  // namespace cograd::kernels::COGRAD_ISA
