// SPDX-License-Identifier: BSD-3-Clause
// A tile of a product that stays in registers while k runs; compiled once per instruction set.
// After K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008).
#pragma once
#include "kernels/product/fused.h"

namespace cograd::kernels::COGRAD_ISA {

// Rows of a tile of two vectors: as many as leave enough registers for the factors.
inline constexpr int kTileRows = kVectorBytes == 64 ? 12 : kVectorBytes == 32 ? 6 : 4;

// Provides a tile's factors: factor(r) returns A[r, p] for a p that advance() increases by one.
// vector(v) of its counterpart returns B[p] from lane v L on.
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

// Computes sum[r][v] += A[r, p] B[p, v] for one p.
template <class T, int R, int V, class A, class B>
COGRAD_INLINE void add_product(A& a, B& b, Vec<T, kLanes<T>> (&sum)[R][V]) {
  Vec<T, kLanes<T>> row[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) row[v] = b.vector(v);
#pragma GCC unroll 24
  for (int r = 0; r < R; ++r) {
    const Vec<T, kLanes<T>> factor = broadcast(a.factor(r));
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[r][v] = fused(factor, row[v], sum[r][v]);
  }
  a.advance();
  b.advance();
}

// Does so for all p below depth, kUnroll of them without a branch.
template <class T, int R, int V, int kUnroll = 1, class A, class B>
COGRAD_INLINE void add_products(int64_t depth, A a, B b, Vec<T, kLanes<T>> (&sum)[R][V]) {
  if constexpr (kUnroll > 1) {
    for (; depth >= kUnroll; depth -= kUnroll)
#pragma GCC unroll 8
      for (int i = 0; i < kUnroll; ++i) add_product<T, R, V>(a, b, sum);
  }
  for (; depth > 0; --depth) add_product<T, R, V>(a, b, sum);
}

}  // namespace cograd::kernels::COGRAD_ISA
