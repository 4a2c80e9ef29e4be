// SPDX-License-Identifier: BSD-3-Clause
// A tile of a product that stays in registers while k runs; compiled once per instruction set.
// After K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).
#pragma once
#include "kernels/reduce/reduce_vec.h"

namespace cograd::kernels::COGRAD_ISA {

// Rows of a tile of two vectors: as many as leave enough registers for the factors.
inline constexpr int kTileRows = kVectorBytes == 64 ? 12 : kVectorBytes == 32 ? 6 : 4;

// These provide a tile's factors: factor(r) returns A[r, p] and vector(v) returns B[p] from lane v
// L on, for a p that advance() increases by one.
template <class T>
struct StridedFactors {
  const T* a;
  int64_t row, step;
  COGRAD_INLINE T factor(int r) const { return a[r * row]; }
  COGRAD_INLINE void advance() { a += step; }
};
// Reads panels of two vectors, `panel` elements apart, whose rows are `step` apart.
template <class T>
struct PanelVectors {
  const T* b;
  int64_t step, panel = 0;
  COGRAD_INLINE Vec<T, kLanes<T>> vector(int v) const {
    return load(b + v / 2 * panel + v % 2 * kLanes<T>);
  }
  COGRAD_INLINE void advance() { b += step; }
};

// Computes sum[r][v] += A[r, p] B[p, v] for p below depth, with R rows of V vectors.
template <class T, int R, int V, class A, class B>
COGRAD_INLINE void add_products(int64_t depth, A a, B b, Vec<T, kLanes<T>> (&sum)[R][V]) {
  for (int64_t p = 0; p < depth; ++p) {
    Vec<T, kLanes<T>> row[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) row[v] = b.vector(v);
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) {
      const T factor = a.factor(r);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] += factor * row[v];
    }
    a.advance();
    b.advance();
  }
}

}  // namespace cograd::kernels::COGRAD_ISA
