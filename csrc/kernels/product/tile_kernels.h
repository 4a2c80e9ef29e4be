// SPDX-License-Identifier: BSD-3-Clause
// The tiles from which products of floats and doubles are made, in the stated order: k in blocks of
// kSumBlock, one chain of fused multiplications from zero in each, and the blocks added ascending.
#pragma once
#include <array>
#include <utility>

#include "kernels/product/gemm_tile.h"
#include "kernels/product/packed_gemm.h"
#include "kernels/product/register_tile.h"

namespace cograd::kernels::COGRAD_ISA {

// Rows of a strip of A: 14 x 2 sums, 2 vectors of B and a factor take the 32 registers of AVX-512.
inline constexpr int kStripRows = kVectorBytes == 64 ? 14 : kVectorBytes == 32 ? 6 : 4;
// Up to so many rows are multiplied by four vectors at once: fewer sums would wait for one another.
inline constexpr int kThinRows = kVectorBytes >= 32 ? 3 : 2;
static_assert(kSumBlock % 8 == 0);

// A tile of C = alpha A B + beta C. A's element (i, p) is a[i * row + p * step]; B is vectors in
// pairs that are `panel` elements apart, in rows ldb apart. The last vector has `last` lanes.
template <class T>
struct Tile {
  const T* a;
  int64_t row, step;
  const T* b;
  int64_t ldb, panel;
  int64_t depth;
  T alpha, beta;  // with beta = 0, C is not read
  T* c;
  int64_t ldc;
  int64_t last;
};

// True if tiles can read the last columns of an unpacked B: AVX2's masked loads take a register and
// 8 % of the time.
inline constexpr bool kReadsEdges = kVectorBytes == 64;

// Reads V vectors of B, the last one in part, because its other lanes may not exist.
template <class T, int V>
struct TileVectors {
  const T* b;
  int64_t step, panel;
  const FirstLanes<T>& last;
  COGRAD_INLINE Vec<T, kLanes<T>> vector(int v) const {
    const T* at = b + v / 2 * panel + v % 2 * kLanes<T>;
    if constexpr (kReadsEdges && V <= 2) {
      if (v == V - 1) return last.load(at);
    }
    return load(at);
  }
  COGRAD_INLINE void advance() { b += step; }
};

template <class T, int R, int V>
COGRAD_INLINE void write_tile(const Tile<T>& g, T* c, T beta, const FirstLanes<T>& last,
                              const Vec<T, kLanes<T>> (&sum)[R][V]) {
  constexpr int L = kLanes<T>;
  const Vec<T, L> alpha = broadcast(g.alpha), keep = broadcast(beta);
  const auto each = [&](auto&& value) {
#pragma GCC unroll 14
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        T* at = c + r * g.ldc + v * L;
        if (FirstLanes<T>::kFree && v == V - 1)
          last.store(at, value(last, v, at, sum[r][v]));
        else
          store<T, L>(at, value(last, 0, at, sum[r][v]));
      }
  };
  if (FirstLanes<T>::kFree || g.last == L) {
    if (beta == T(0)) return each([&](auto&, int, const T*, auto s) { return alpha * s; });
    return each([&](auto& some, int v, const T* at, auto s) {
      const Vec<T, L> old = FirstLanes<T>::kFree && v == V - 1 ? some.load(at) : load(at);
      return fused(alpha, s, keep * old);
    });
  }
  Vec<T, L> sums[R * V];
#pragma GCC unroll 14
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sums[r * V + v] = sum[r][v];
  for (int i = 0; i < R * V; ++i) {
    T* at = c + i / V * g.ldc + i % V * L;
    const FirstLanes<T> some = i % V == V - 1 ? last : FirstLanes<T>(L);
    some.store(at, beta == T(0) ? alpha * sums[i] : fused(alpha, sums[i], keep * some.load(at)));
  }
}

template <class T, int R, int V>
void tile(const Tile<T>& g) {
  constexpr int kUnroll = R == kStripRows && V == 2 ? 2 : 1;
  const FirstLanes<T> last(g.last);
  const T* a = g.a;
  const T* b = g.b;
  T beta = g.beta;
  int64_t left = g.depth;
  do {
    const int64_t depth = std::min(left, kSumBlock);
    Vec<T, kLanes<T>> sum[R][V] = {};
    add_products<T, R, V, kUnroll>(depth, StridedFactors<T>{a, g.row, g.step},
                                   TileVectors<T, V>{b, g.ldb, g.panel, last}, sum);
    write_tile<T, R, V>(g, g.c, beta, last, sum);
    a += depth * g.step;
    b += depth * g.ldb;
    left -= depth;
    beta = 1;
  } while (left > 0);
}

template <class T>
using TileFn = void (*)(const Tile<T>&);
template <class T, int V, int N>
constexpr std::array<TileFn<T>, N> tiles_of() {
  return []<size_t... I>(std::index_sequence<I...>) {
    return std::array<TileFn<T>, N>{tile<T, static_cast<int>(I) + 1, V>...};
  }(std::make_index_sequence<N>());
}

// Returns the tile of `rows` rows and `vectors` vectors: 1 or 2, or 4 for up to kThinRows rows.
template <class T>
COGRAD_INLINE TileFn<T> tile_of(int64_t rows, int vectors) {
  static constexpr auto kOne = tiles_of<T, 1, kStripRows>(), kTwo = tiles_of<T, 2, kStripRows>();
  static constexpr auto kFour = tiles_of<T, 4, kThinRows>();
  const auto at = static_cast<size_t>(rows - 1);
  return vectors == 2 ? kTwo[at] : vectors == 1 ? kOne[at] : kFour[at];
}

}  // namespace cograd::kernels::COGRAD_ISA
