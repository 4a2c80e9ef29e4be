// SPDX-License-Identifier: BSD-3-Clause
// Packing and register tiles of a float product; compiled once per instruction set.
#include "kernels/gemm_block.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "kernels/reduce_vec.h"

namespace cograd::kernels::COGRAD_ISA {

GemmBlock gemm_block(DType t);

#if defined(__AVX512F__)
namespace {

// A tile is kTileRows rows of C by two vectors: the accumulators, two vectors of B and one
// broadcast element of A take 31 of the 32 registers.
constexpr int kTileRows = 14;
constexpr int64_t kDepth = 256;  // terms between two visits of a tile: a panel of B fills 32 KiB
constexpr int64_t kRowBlock = 16 * kTileRows;  // rows of A packed at a time
constexpr int64_t kDirect = 1 << 14;           // elements of B
constexpr int64_t kPanels = 32;                // panels of B packed at a time: 1 MiB
// Row length of packed A: known to the compiler, and no multiple of a page, so that the rows of a
// tile do not fall into one cache set.
constexpr int64_t kStride = kDepth + 16;

template <class T>
constexpr int64_t kPanelCols = 2 * kLanes<T>;

// Packed A and B of this thread, kept for the next product.
struct Workspace {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> memory;
  int64_t size = 0;

  char* at_least(int64_t bytes) {
    if (bytes > size) {
      bytes = (bytes + 4095) / 4096 * 4096;
      memory.reset(static_cast<char*>(std::aligned_alloc(4096, static_cast<size_t>(bytes))));
      size = memory == nullptr ? 0 : bytes;
      if (size == 0) throw std::bad_alloc();
    }
    return memory.get();
  }
};

char* workspace(int64_t bytes) {
  thread_local Workspace w;
  return w.at_least(bytes);
}

// One step of the transposition: exchanges blocks of kBlock lanes between two rows.
template <class T, int L, int kBlock, int... I>
COGRAD_INLINE void exchange(Vec<T, L>& a, Vec<T, L>& b, std::integer_sequence<int, I...>) {
  const Vec<T, L> low = __builtin_shufflevector(a, b, ((I & kBlock) == 0 ? I : L + I - kBlock)...);
  b = __builtin_shufflevector(a, b, ((I & kBlock) == 0 ? I + kBlock : L + I)...);
  a = low;
}
template <class T, int L, int kBlock>
COGRAD_INLINE void exchange_all(Vec<T, L> (&v)[L]) {
  if constexpr (kBlock < L) {
#pragma GCC unroll 16
    for (int i = 0; i < L; ++i) {
      if ((i & kBlock) == 0)
        exchange<T, L, kBlock>(v[i], v[i + kBlock], std::make_integer_sequence<int, L>());
    }
    exchange_all<T, L, 2 * kBlock>(v);
  }
}

// to[j * to_ld + i] = from[i * ld + j].
template <class T>
void transpose(const T* from, int64_t ld, int64_t rows, int64_t cols, T* to, int64_t to_ld) {
  constexpr int L = kLanes<T>;
  int64_t i = 0;
  for (; i + L <= rows; i += L) {
    int64_t j = 0;
    for (; j + L <= cols; j += L) {
      Vec<T, L> v[L];
      const T* p = from + i * ld + j;
      T* q = to + j * to_ld + i;
#pragma GCC unroll 16
      for (int k = 0; k < L; ++k) v[k] = load(p + k * ld);
      exchange_all<T, L, 1>(v);
#pragma GCC unroll 16
      for (int k = 0; k < L; ++k) store<T, L>(q + k * to_ld, v[k]);
    }
    for (; j < cols; ++j) {
      for (int k = 0; k < L; ++k) to[j * to_ld + i + k] = from[(i + k) * ld + j];
    }
  }
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) to[j * to_ld + i] = from[i * ld + j];
  }
}

// Terms [p, p + depth) of rows [i, i + rows) of op(A), row by row.
template <class T>
void pack_a(const GemmArgs& g, int64_t i, int64_t rows, int64_t p, int64_t depth, T* to) {
  const T* a = static_cast<const T*>(g.a);
  if (g.ta) return transpose(a + p * g.lda + i, g.lda, depth, rows, to, kStride);
  constexpr int L = kLanes<T>;
  for (int64_t r = 0; r < rows; ++r) {
    const T* from = a + (i + r) * g.lda + p;
    int64_t q = 0;
    for (; q + L <= depth; q += L) store<T, L>(to + r * kStride + q, load(from + q));
    for (; q < depth; ++q) to[r * kStride + q] = from[q];
  }
}

// Terms [p, p + depth) of columns [j, j + cols) of op(B) in panels, the last one padded with zeros.
template <class T>
void pack_b(const GemmArgs& g, int64_t j, int64_t cols, int64_t p, int64_t depth, T* to) {
  constexpr int64_t kCols = kPanelCols<T>;
  const T* b = static_cast<const T*>(g.b);
  const int64_t whole = cols / kCols, rest = cols % kCols;
  if (g.tb) {
    for (int64_t q = 0; q < whole; ++q)
      transpose(b + (j + q * kCols) * g.ldb + p, g.ldb, kCols, depth, to + q * kCols * depth,
                kCols);
  } else {
    constexpr int64_t kGroup = 8;  // 1 KiB of a row; more panels would fall into one cache set
    for (int64_t q0 = 0; q0 < whole; q0 += kGroup) {
      for (int64_t r = 0; r < depth; ++r) {
        const T* row = b + (p + r) * g.ldb + j;
        for (int64_t q = q0; q < std::min(whole, q0 + kGroup); ++q) {
          T* panel = to + (q * depth + r) * kCols;
          const auto v0 = load(row + q * kCols), v1 = load(row + q * kCols + kLanes<T>);
          store<T, kLanes<T>>(panel, v0);
          store<T, kLanes<T>>(panel + kLanes<T>, v1);
        }
      }
    }
  }
  if (rest == 0) return;
  T* panel = to + whole * kCols * depth;
  std::fill_n(panel, depth * kCols, T(0));
  const T* first = g.tb ? b + (j + whole * kCols) * g.ldb + p : b + p * g.ldb + j + whole * kCols;
  if (g.tb) return transpose(first, g.ldb, rest, depth, panel, kCols);
  for (int64_t r = 0; r < depth; ++r) std::copy_n(first + r * g.ldb, rest, panel + r * kCols);
}

// c[0, R) x [0, cols) = alpha * a b + beta * c, of `depth` terms; rows of b lie ldb apart.
template <class T>
struct TileArgs {
  const T* a;
  const T* b;
  int64_t ldb, depth;
  T* c;
  int64_t ldc, cols;
  T alpha, beta;
};
template <class T>
using TileFn = void (*)(const TileArgs<T>& t);

// The end of a tile that adds to C or is narrower than its vectors: whole and partial vectors by
// one formula, as where they begin depends on the division of C.
template <class T>
__attribute__((noinline)) void finish(const Vec<T, kLanes<T>>* sum, int rows, int vectors,
                                      const TileArgs<T>& t) {
  constexpr int L = kLanes<T>;
  const T alpha = t.alpha, beta = t.beta;
  for (int i = 0; i < rows; ++i) {
    for (int v = 0; v < vectors; ++v, ++sum) {
      T* to = t.c + i * t.ldc + v * L;
      const int64_t left = t.cols - v * L;
      const auto bytes = static_cast<size_t>(left) * sizeof(T);
      Vec<T, L> old{};
      if (left >= L) {
        if (beta != T(0)) old = load(to);
      } else if (beta != T(0)) {
        std::memcpy(&old, to, bytes);
      }
      const Vec<T, L> r = beta != T(0) ? *sum * alpha + old * beta : *sum * alpha;
      if (left >= L)
        store<T, L>(to, r);
      else
        std::memcpy(to, &r, bytes);
    }
  }
}

template <class T, int R, int V>
void tile(const TileArgs<T>& t) {
  constexpr int L = kLanes<T>;
  using F = Vec<T, L>;
  F sum[R][V]{};
  const auto term = [&](const T* ap, const T* bp) __attribute__((always_inline)) {
    F bv[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) bv[v] = load(bp + v * L);
#pragma GCC unroll 14
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[i][v] += ap[i * kStride] * bv[v];
    }
  };
  // Rows of C are fetched one by one beside the arithmetic: all at once they would hold it up.
  constexpr int64_t kTermsPerRow = 8;
  const T* a = t.a;
  const T* b = t.b;
  const int64_t ldb = t.ldb, ldc = t.ldc;
  const T* ahead = t.c;
  const T* end = a + t.depth;
  for (; a + kTermsPerRow <= end; ahead += ldc) {
    __builtin_prefetch(ahead);
    __builtin_prefetch(ahead + V * L - 1);
#pragma GCC unroll 1
    for (int q = 0; q < kTermsPerRow; ++q, ++a, b += ldb) term(a, b);
  }
  for (; a < end; ++a, b += ldb) term(a, b);
  if (t.cols >= V * L && t.beta == T(0)) {
    T* c = t.c;
#pragma GCC unroll 14
    for (int i = 0; i < R; ++i, c += t.ldc) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) store<T, L>(c + v * L, sum[i][v] * t.alpha);
    }
    return;
  }
  finish<T>(&sum[0][0], R, V, t);
}

template <class T, int V, int... R>
constexpr std::array<TileFn<T>, kTileRows + 1> make_tiles(std::integer_sequence<int, R...>) {
  return {nullptr, tile<T, R + 1, V>...};
}
template <class T, int V>
constexpr std::array<TileFn<T>, kTileRows + 1> kTiles =
    make_tiles<T, V>(std::make_integer_sequence<int, kTileRows>());

template <class T>
void product(const GemmArgs& g) {
  constexpr int64_t kCols = kPanelCols<T>;
  const int64_t depth = std::min(g.k, kDepth);
  const int64_t panels = std::min((g.n + kCols - 1) / kCols, kPanels);
  const int64_t b_size = panels * kCols * depth;
  const int64_t a_size = std::min(g.m, kRowBlock) * kStride;
  T* packed_b = reinterpret_cast<T*>(workspace((a_size + b_size) * int64_t{sizeof(T)}));
  T* packed_a = packed_b + b_size;
  const T alpha = static_cast<T>(g.alpha);
  // A small B is read where it lies.
  const bool direct = !g.tb && g.n % kCols == 0 && depth * g.ldb <= kDirect;
  const int64_t ldb = direct ? g.ldb : kCols;
  for (int64_t j0 = 0; j0 < g.n; j0 += kPanels * kCols) {
    const int64_t cols = std::min(g.n - j0, kPanels * kCols);
    for (int64_t p = 0; p < g.k; p += kDepth) {
      const int64_t d = std::min(g.k - p, kDepth);
      const T beta = p == 0 ? static_cast<T>(g.beta) : T(1);
      if (!direct) pack_b(g, j0, cols, p, d, packed_b);
      for (int64_t i0 = 0; i0 < g.m; i0 += kRowBlock) {
        const int64_t rows = std::min(g.m - i0, kRowBlock);
        pack_a(g, i0, rows, p, d, packed_a);
        // Equal heights: a last tile of a row or two would wait for its own sums.
        const int64_t tiles_high = (rows + kTileRows - 1) / kTileRows;
        const int64_t height = (rows + tiles_high - 1) / tiles_high;
        for (int64_t j = 0; j < cols; j += kCols) {
          const auto& tiles = cols - j > kLanes<T> ? kTiles<T, 2> : kTiles<T, 1>;
          T* c = static_cast<T*>(g.c) + i0 * g.ldc + j0 + j;
          for (int64_t i = 0; i < rows; i += height) {
            const auto own = static_cast<size_t>(std::min(rows - i, height));
            const T* b =
                direct ? static_cast<const T*>(g.b) + p * g.ldb + j0 + j : packed_b + j * d;
            tiles[own]({packed_a + i * kStride, b, ldb, d, c + i * g.ldc, g.ldc,
                        std::min(cols - j, kCols), alpha, beta});
          }
        }
      }
    }
  }
}

}  // namespace

GemmBlock gemm_block(DType t) {
  if (t == DType::Float32) return product<float>;
  return t == DType::Float64 ? product<double> : nullptr;
}
#else
GemmBlock gemm_block(DType) { return nullptr; }
#endif

}  // namespace cograd::kernels::COGRAD_ISA
