// SPDX-License-Identifier: BSD-3-Clause
// Multiplies rows of a sparse matrix. Compiled once per instruction set.
#include <cmath>

#include "kernels/product/csr.h"
#include "kernels/product/fused.h"

namespace cograd::kernels::COGRAD_ISA {

CsrLoops csr_loops();

namespace {

template <class T>
COGRAD_INLINE T fused_one(T a, T b, T c) {
#if defined(__FMA__) || defined(__aarch64__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

// The entries of the rows, with their indices checked.
template <class I>
struct Entries {
  const I *start, *col, *place;
  uint64_t cols, entries;
  explicit Entries(const CsrPattern& a)
      : start(static_cast<const I*>(a.start)),
        col(static_cast<const I*>(a.col)),
        place(static_cast<const I*>(a.place)),
        cols(static_cast<uint64_t>(a.cols)),
        entries(static_cast<uint64_t>(a.entries)) {}
  // Sets the column and the place of entry e; false if one is out of range.
  COGRAD_INLINE bool read(int64_t e, int64_t& c, int64_t& p) const {
    c = col[e];
    p = place != nullptr ? static_cast<int64_t>(place[e]) : e;
    return static_cast<uint64_t>(c) < cols && static_cast<uint64_t>(p) < entries;
  }
};

template <class T, class I>
bool single_column(const Entries<I>& a, const T* values, const T* x, T* out, int64_t lo,
                   int64_t hi) {
  for (int64_t i = lo; i < hi; ++i) {
    T sum = 0;
    for (int64_t e = a.start[i]; e < a.start[i + 1]; ++e) {
      int64_t c, p;
      if (!a.read(e, c, p)) return false;
      sum = fused_one(values[p], x[c], sum);
    }
    out[i] = sum;
  }
  return true;
}

// Computes V vectors of columns of row i; if V is 1, only the first `count` columns of the vector.
template <class T, class I, int V>
COGRAD_INLINE bool columns(const Entries<I>& a, const T* values, const T* x, int64_t k, T* out,
                           int64_t i, int64_t count) {
  constexpr int L = kLanes<T>;
  const FirstLanes<T> first(count);
  Vec<T, L> sum[V] = {};
  for (int64_t e = a.start[i]; e < a.start[i + 1]; ++e) {
    int64_t c, p;
    if (!a.read(e, c, p)) return false;
    const Vec<T, L> factor = broadcast(values[p]);
    const T* row = x + c * k;
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v)
      sum[v] = fused(factor, V == 1 ? first.load(row) : load(row + v * L), sum[v]);
  }
  if constexpr (V == 1)
    first.store(out + i * k, sum[0]);
  else
    for (int v = 0; v < V; ++v) store<T, L>(out + i * k + v * L, sum[v]);
  return true;
}

template <class T, class I>
bool many_columns(const Entries<I>& a, const T* values, const T* x, int64_t k, T* out, int64_t lo,
                  int64_t hi) {
  constexpr int L = kLanes<T>;
  for (int64_t i = lo; i < hi; ++i) {
    int64_t j = 0;
    for (; j + 2 * L <= k; j += 2 * L)
      if (!columns<T, I, 2>(a, values, x + j, k, out + j, i, L)) return false;
    for (; j < k; j += L)
      if (!columns<T, I, 1>(a, values, x + j, k, out + j, i, std::min<int64_t>(L, k - j)))
        return false;
  }
  return true;
}

template <class T>
COGRAD_INLINE T dot(const T* a, const T* b, int64_t k) {
  constexpr int L = kLanes<T>;
  Vec<T, L> sum{};
  int64_t j = 0;
  for (; j + L <= k; j += L) sum = fused(load(a + j), load(b + j), sum);
  if (j < k) {
    const FirstLanes<T> first(k - j);
    sum = fused(first.load(a + j), first.load(b + j), sum);
  }
  T total = 0;
  for (int l = 0; l < L; ++l) total += sum[l];
  return total;
}

template <class T, class I>
bool sampled_rows(const Entries<I>& a, const T* y, const T* x, int64_t k, T* out, int64_t lo,
                  int64_t hi) {
  for (int64_t i = lo; i < hi; ++i)
    for (int64_t e = a.start[i]; e < a.start[i + 1]; ++e) {
      int64_t c, p;
      if (!a.read(e, c, p)) return false;
      out[p] = k == 1 ? y[i] * x[c] : dot(y + i * k, x + c * k, k);
    }
  return true;
}

template <class F>
bool by_types(DType t, const CsrPattern& a, F&& f) {
  if (a.index == DType::Int32) {
    const Entries<int32_t> entries(a);
    return t == DType::Float32 ? f(float{}, entries) : f(double{}, entries);
  }
  const Entries<int64_t> entries(a);
  return t == DType::Float32 ? f(float{}, entries) : f(double{}, entries);
}

bool product(DType t, const CsrPattern& a, const void* values, const void* x, int64_t k, void* out,
             int64_t lo, int64_t hi) {
  return by_types(t, a, [&]<class T>(T, const auto& entries) {
    const auto *v = static_cast<const T*>(values), *from = static_cast<const T*>(x);
    auto* to = static_cast<T*>(out);
    return k == 1 ? single_column(entries, v, from, to, lo, hi)
                  : many_columns(entries, v, from, k, to, lo, hi);
  });
}

bool sampled(DType t, const CsrPattern& a, const void* y, const void* x, int64_t k, void* out,
             int64_t lo, int64_t hi) {
  return by_types(t, a, [&]<class T>(T, const auto& entries) {
    return sampled_rows(entries, static_cast<const T*>(y), static_cast<const T*>(x), k,
                        static_cast<T*>(out), lo, hi);
  });
}

}  // namespace

CsrLoops csr_loops() { return {product, sampled}; }

}  // namespace cograd::kernels::COGRAD_ISA
