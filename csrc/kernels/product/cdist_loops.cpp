// SPDX-License-Identifier: BSD-3-Clause
// Computes tiles of distances: several rows against a panel of packed rows, with one loop per norm.
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/core/transpose.h"
#include "kernels/core/vecmath.h"
#include "kernels/product/cdist.h"
#include "kernels/product/packed_gemm.h"

namespace cograd::kernels::COGRAD_ISA {

CdistLoops cdist_loops();

namespace {

constexpr int kTile = 4;

// A norm defines how a difference is added, how the sum is finished, and the derivative with
// respect to a difference d for the distance `dist` and its gradient g.
template <class T>
struct Absolute {
  T p;
  COGRAD_INLINE T add(T sum, T d) const { return sum + abs(d); }
  T finish(T sum) const { return sum; }
  T factor(T g, T) const { return g; }
  COGRAD_INLINE T slope(T d, T factor, T) const { return sign(d) * factor; }
};
template <class T>
struct Largest {
  T p;
  COGRAD_INLINE T add(T sum, T d) const { return maximum(abs(d), sum); }
  T finish(T sum) const { return sum; }
  T factor(T g, T) const { return g; }
  COGRAD_INLINE T slope(T d, T factor, T dist) const {
    return abs(d) == dist ? sign(d) * factor : T(0);
  }
};
template <class T>
struct Different {
  T p;
  COGRAD_INLINE T add(T sum, T d) const { return sum + (d != T(0) ? T(1) : T(0)); }
  T finish(T sum) const { return sum; }
  T factor(T, T) const { return T(0); }
  COGRAD_INLINE T slope(T, T, T) const { return T(0); }
};
template <class T>
struct Power {
  T p;
  COGRAD_INLINE T add(T sum, T d) const { return sum + pow(abs(d), p); }
  T finish(T sum) const { return std::pow(sum, T(1) / p); }
  T factor(T g, T dist) const { return dist == 0 ? T(0) : g / std::pow(dist, p - 1); }
  COGRAD_INLINE T slope(T d, T factor, T) const {
    return d == T(0) ? T(0) : sign(d) * pow(abs(d), p - T(1)) * factor;
  }
};

template <class T, class F>
void with_norm(double p, F&& f) {
  if (p == 1) return f(Absolute<T>{T(1)});
  if (p == 0) return f(Different<T>{T(0)});
  if (p == std::numeric_limits<double>::infinity()) return f(Largest<T>{T(0)});
  f(Power<T>{static_cast<T>(p)});
}

template <class T, int R, class Norm>
void tile(const Norm& norm, const T* a, int64_t m, const T* panel, T* out, int64_t r,
          int64_t cols) {
  T acc[R][kPanel<T>] = {};
  for (int64_t k = 0; k < m; ++k, panel += kPanel<T>)
    for (int i = 0; i < R; ++i) {
      const T x = a[i * m + k];
#pragma omp simd
      for (int j = 0; j < kPanel<T>; ++j) acc[i][j] = norm.add(acc[i][j], x - panel[j]);
    }
  for (int i = 0; i < R; ++i)
    for (int64_t j = 0; j < cols; ++j) out[i * r + j] = norm.finish(acc[i][j]);
}

// Computes roots; with kDivider by the instruction, else by multiplications if they are faster.
template <class T, bool kDivider>
COGRAD_INLINE Vec<T, kLanes<T>> root(Vec<T, kLanes<T>> v) {
#if defined(__AVX512F__)
  if constexpr (!kDivider)
    return sqrt512(v);
  else if constexpr (sizeof(T) == 4)
    return _mm512_maskz_sqrt_ps(0xFFFF, v);
  else
    return _mm512_maskz_sqrt_pd(0xFF, v);
#else
  for (int i = 0; i < kLanes<T>; ++i) v[i] = sqrt(v[i]);
  return v;
#endif
}

// Computes Euclidean distances of R rows and V vectors of a panel, kept in registers.
template <class T, int R, int V>
void euclidean_tile(const T* a, int64_t m, const T* panel, T* out, int64_t r, int64_t cols) {
  constexpr int L = kLanes<T>;
  Vec<T, L> acc[R][V] = {};
  for (int64_t k = 0; k < m; ++k, panel += kPanel<T>)
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        const Vec<T, L> d = load(panel + v * L) - a[i * m + k];
        acc[i][v] += d * d;
      }
  // The divider and the multipliers work at the same time.
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      const Vec<T, L> d = (i + v) % 2 == 0 ? root<T, true>(acc[i][v]) : root<T, false>(acc[i][v]);
      T* to = out + i * r + v * L;
      const int64_t left = cols - v * L;
      if (left >= L)
        store<T, L>(to, d);
      else
        for (int64_t j = 0; j < left; ++j) to[j] = d[j];
    }
}

// Weights of row i of x and row j of b: data[i * row + j * step].
template <class T>
struct PairWeights {
  const T* data;
  int64_t row, step;
  PairWeights from_row(int64_t i) const { return {data + i * row, row, step}; }
  COGRAD_INLINE T at(int64_t i, int64_t j) const { return data[i * row + j * step]; }
};

// Computes sums over j of w (x - b[j]) for R rows of x and V vectors of elements, kept in
// registers.
template <class T, int R, int V>
void weighed_tile(const T* x, const T* b, PairWeights<T> w, int64_t r, int64_t m, T* out) {
  constexpr int L = kLanes<T>;
  Vec<T, L> row[R][V], sum[R][V] = {};
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) row[i][v] = load(x + i * m + v * L);
  for (int64_t j = 0; j < r; ++j, b += m)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const Vec<T, L> y = load(b + v * L);
#pragma GCC unroll 4
      for (int i = 0; i < R; ++i) sum[i][v] += (row[i][v] - y) * w.at(i, j);
    }
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store<T, L>(out + i * m + v * L, sum[i][v]);
}
template <class T, int R>
void weighed_differences(const T* x, const T* b, PairWeights<T> w, int64_t r, int64_t m, T* out) {
  constexpr int L = kLanes<T>, V = R == 1 ? 4 : 2;
  int64_t k = 0;
  for (; k + V * L <= m; k += V * L) weighed_tile<T, R, V>(x + k, b + k, w, r, m, out + k);
  for (; k + L <= m; k += L) weighed_tile<T, R, 1>(x + k, b + k, w, r, m, out + k);
  if (k == m) return;
  for (int i = 0; i < R; ++i, x += m, out += m) {
    std::fill(out + k, out + m, T(0));
    for (int64_t j = 0; j < r; ++j)
      for (int64_t e = k; e < m; ++e) out[e] += (x[e] - b[j * m + e]) * w.at(i, j);
  }
}

// Processes some rows at a time, so that gradients stored along columns are read in pieces of cache
// lines. The weights are stored in the order in which the gradients are read.
template <class T>
void euclidean_backward(const T* a, const T* b, int64_t r, int64_t m, const T* g, const T* dist,
                        int64_t row_step, int64_t col_step, T* out, int64_t lo, int64_t hi) {
  constexpr int64_t kRows = 16, kGradRows = kVectorBytes == 64 ? 4 : 3;
  const std::unique_ptr<T[]> room(new T[static_cast<size_t>(kRows * r)]);
  T* weights = room.get();
  const auto weight = [&](int64_t at) { return dist[at] == T(0) ? T(0) : g[at] / dist[at]; };
  for (; lo < hi; lo += kRows) {
    const int64_t rows = std::min(kRows, hi - lo);
    const bool along = col_step == 1;
    if (along) {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < r; ++j) weights[i * r + j] = weight((lo + i) * row_step + j);
    } else if (row_step == 1 && rows == kRows) {
      for (int64_t j = 0; j < r; ++j)
        for (int64_t i = 0; i < kRows; ++i) weights[j * kRows + i] = weight(lo + i + j * col_step);
    } else {
      for (int64_t j = 0; j < r; ++j)
        for (int64_t i = 0; i < rows; ++i)
          weights[j * kRows + i] = weight((lo + i) * row_step + j * col_step);
    }
    const PairWeights<T> w{weights, along ? r : 1, along ? 1 : kRows};
    int64_t i = 0;
    for (; i + kGradRows <= rows; i += kGradRows)
      weighed_differences<T, kGradRows>(a + (lo + i) * m, b, w.from_row(i), r, m,
                                        out + (lo + i) * m);
    for (; i < rows; ++i)
      weighed_differences<T, 1>(a + (lo + i) * m, b, w.from_row(i), r, m, out + (lo + i) * m);
  }
}

// Computes R rows of distances.
template <class T, int R>
void euclidean_rows(const T* a, const T* packed, int64_t r, int64_t m, T* out) {
  // With AVX-512, tiles of one vector read factors as operands of subtractions, which is quicker.
  constexpr int kVectors = kVectorBytes == 64 ? 1 : 2;
  for (int64_t j = 0; j < r; j += kPanel<T>)
    for (int64_t v = 0; v < kPanel<T> && j + v < r; v += kVectors * kLanes<T>)
      euclidean_tile<T, R, kVectors>(a, m, packed + j * m + v, out + j + v, r, r - j - v);
}
template <class T>
void euclidean_forward(const T* a, const T* packed, int64_t r, int64_t m, T* out, int64_t lo,
                       int64_t hi) {
  constexpr int kRows = kVectorBytes == 64 ? 12 : 4;
  for (; lo + kRows <= hi; lo += kRows)
    euclidean_rows<T, kRows>(a + lo * m, packed, r, m, out + lo * r);
  if constexpr (kRows > 4)
    for (; lo + 4 <= hi; lo += 4) euclidean_rows<T, 4>(a + lo * m, packed, r, m, out + lo * r);
  for (; lo < hi; ++lo) euclidean_rows<T, 1>(a + lo * m, packed, r, m, out + lo * r);
}

template <class T>
void forward_as(double p, const T* a, const T* packed, int64_t r, int64_t m, T* out, int64_t lo,
                int64_t hi) {
  if (p == 2) return euclidean_forward(a, packed, r, m, out, lo, hi);
  with_norm<T>(p, [&](const auto& norm) {
    for (int64_t i = lo; i < hi;) {
      const bool full = hi - i >= kTile;
      for (int64_t j = 0; j < r; j += kPanel<T>) {
        const int64_t cols = std::min<int64_t>(kPanel<T>, r - j);
        const T* panel = packed + j * m;
        if (full)
          tile<T, kTile>(norm, a + i * m, m, panel, out + i * r + j, r, cols);
        else
          tile<T, 1>(norm, a + i * m, m, panel, out + i * r + j, r, cols);
      }
      i += full ? kTile : 1;
    }
  });
}

template <class T>
void backward_as(double p, const T* a, const T* b, int64_t r, int64_t m, const T* g, const T* dist,
                 int64_t row_step, int64_t col_step, T* out, int64_t lo, int64_t hi) {
  if (p == 2) return euclidean_backward(a, b, r, m, g, dist, row_step, col_step, out, lo, hi);
  with_norm<T>(p, [&](const auto& norm) {
    for (int64_t i = lo; i < hi; ++i) {
      T* __restrict to = out + i * m;
      const T* x = a + i * m;
      std::fill_n(to, m, T(0));
      for (int64_t j = 0; j < r; ++j) {
        const int64_t at = i * row_step + j * col_step;
        const T d = dist[at], factor = norm.factor(g[at], d);
        const T* y = b + j * m;
        for (int64_t k = 0; k < m; ++k) to[k] += norm.slope(x[k] - y[k], factor, d);
      }
    }
  });
}

template <class T>
const T* as(const void* p) {
  return static_cast<const T*>(p);
}
int64_t size_of(DType t, int64_t r, int64_t m) {
  return t == DType::Float64 ? packed_size<double>(m, r) : packed_size<float>(m, r);
}
template <class T>
void pack_rows(const T* b, int64_t r, int64_t m, T* out) {
  for (int64_t j = 0; j < r; j += kPanel<T>)
    transpose(b + j * m, m, std::min<int64_t>(kPanel<T>, r - j), m, kPanel<T>, out + j * m);
}
void pack_rows(DType t, const void* b, int64_t r, int64_t m, void* out) {
  if (t == DType::Float64)
    pack_rows(as<double>(b), r, m, static_cast<double*>(out));
  else
    pack_rows(as<float>(b), r, m, static_cast<float*>(out));
}
void forward(DType t, double p, const void* a, const void* packed, int64_t r, int64_t m, void* out,
             int64_t lo, int64_t hi) {
  if (t == DType::Float64)
    forward_as(p, as<double>(a), as<double>(packed), r, m, static_cast<double*>(out), lo, hi);
  else
    forward_as(p, as<float>(a), as<float>(packed), r, m, static_cast<float*>(out), lo, hi);
}
void backward(DType t, double p, const void* a, const void* b, int64_t r, int64_t m, const void* g,
              const void* dist, int64_t row_step, int64_t col_step, void* out, int64_t lo,
              int64_t hi) {
  if (t == DType::Float64)
    backward_as(p, as<double>(a), as<double>(b), r, m, as<double>(g), as<double>(dist), row_step,
                col_step, static_cast<double*>(out), lo, hi);
  else
    backward_as(p, as<float>(a), as<float>(b), r, m, as<float>(g), as<float>(dist), row_step,
                col_step, static_cast<float*>(out), lo, hi);
}

}  // namespace

CdistLoops cdist_loops() { return {size_of, pack_rows, forward, backward}; }

}  // namespace cograd::kernels::COGRAD_ISA
