// SPDX-License-Identifier: BSD-3-Clause
// Computes products in register tiles, without packing if the operands are small enough for the
// cache. Compiled once per instruction set.
#include "kernels/product/gemm_tile.h"

#include <algorithm>
#include <memory>

#include "kernels/product/register_tile.h"

namespace cograd::kernels::COGRAD_ISA {

GemmTile gemm_tile();

namespace {

constexpr int64_t kDepth = 256;                 // rows per packed panel
constexpr int64_t kBlockRows = 20 * kTileRows;  // rows of A that are packed at once
constexpr int64_t kOften = 48;                  // number of rows of C from which a panel is copied

constexpr int kMostVectors = 2;
template <class T, int V = kMostVectors>
constexpr int64_t kCols = V * kLanes<T>;

// The operands as the tiles read them: op(A)[i, p] is a[i * row + p * step].
template <class T>
struct Tiled {
  const T* a;
  int64_t row, step;
  const T* b;  // rows of at least kCols elements, ldb apart
  int64_t ldb;
  T alpha, beta;
  T* c;
  int64_t ldc;
};

// Computes C[0, R) x [0, cols) = alpha * A B + beta * C, with V vectors per row.
template <class T, int V, int R>
void tile(const Tiled<T>& g, int64_t depth, int64_t cols) {
  constexpr int L = kLanes<T>;
  Vec<T, L> acc[R][V] = {};
  add_products<T, R, V>(depth, StridedFactors<T>{g.a, g.row, g.step}, PanelVectors<T>{g.b, g.ldb},
                        acc);
  if (cols == kCols<T, V>) {
    for (int i = 0; i < R; ++i) {
      T* c = g.c + i * g.ldc;
      for (int v = 0; v < V; ++v) {
        Vec<T, L> value = g.alpha * acc[i][v];
        if (g.beta != T(0)) value += g.beta * load(c + v * L);
        store<T, L>(c + v * L, value);
      }
    }
    return;
  }
  alignas(64) T sums[R][kCols<T, V>];
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < V; ++v) store<T, L>(sums[i] + v * L, g.alpha * acc[i][v]);
  for (int i = 0; i < R; ++i) {
    T* c = g.c + i * g.ldc;
    for (int64_t j = 0; j < cols; ++j)
      c[j] = g.beta == T(0) ? sums[i][j] : sums[i][j] + g.beta * c[j];
  }
}

template <class T, int V, int R = kTileRows>
void tile_of(int rows, const Tiled<T>& g, int64_t depth, int64_t cols) {
  if (rows == R) return tile<T, V, R>(g, depth, cols);
  if constexpr (R > 1) tile_of<T, V, R - 1>(rows, g, depth, cols);
}

// Copies `n` elements, which are usually kWhole: a memmove call per row would take as long as the
// copy.
template <int64_t kWhole, class T>
void copy_row(const T* from, int64_t n, T* to) {
  if (n == kWhole)
    std::memcpy(to, from, kWhole * sizeof(T));
  else
    std::copy_n(from, n, to);
}

// Computes to[p, j] = from[j, p] in blocks of four by four.
template <class T>
void transpose(const T* from, int64_t ld, int64_t depth, int64_t cols, T* to) {
  using V = Vec<T, 4>;
  using I = std::conditional_t<sizeof(T) == 4, Vec<int32_t, 4>, Vec<int64_t, 4>>;
  int64_t j = 0;
  for (; j + 4 <= cols; j += 4) {
    int64_t p = 0;
    for (; p + 4 <= depth; p += 4) {
      V r[4];
      for (int k = 0; k < 4; ++k) std::memcpy(&r[k], from + (j + k) * ld + p, sizeof(V));
      const V a = __builtin_shuffle(r[0], r[1], I{0, 4, 1, 5});
      const V b = __builtin_shuffle(r[0], r[1], I{2, 6, 3, 7});
      const V c = __builtin_shuffle(r[2], r[3], I{0, 4, 1, 5});
      const V d = __builtin_shuffle(r[2], r[3], I{2, 6, 3, 7});
      const V out[4] = {
          __builtin_shuffle(a, c, I{0, 1, 4, 5}), __builtin_shuffle(a, c, I{2, 3, 6, 7}),
          __builtin_shuffle(b, d, I{0, 1, 4, 5}), __builtin_shuffle(b, d, I{2, 3, 6, 7})};
      for (int k = 0; k < 4; ++k) std::memcpy(to + (p + k) * kCols<T> + j, &out[k], sizeof(V));
    }
    for (; p < depth; ++p)
      for (int k = 0; k < 4; ++k) to[p * kCols<T> + j + k] = from[(j + k) * ld + p];
  }
  for (; j < cols; ++j)
    for (int64_t p = 0; p < depth; ++p) to[p * kCols<T> + j] = from[j * ld + p];
}

// Returns columns [j, j + cols) of op(B), rows [p, p + depth), as rows of kCols elements. Copies a
// panel that is read often, because rows far apart evict each other from the cache.
template <class T>
const T* panel_of(const GemmArgs& g, int64_t p, int64_t depth, int64_t j, int64_t cols, T* packed,
                  int64_t* ld) {
  const T* b = static_cast<const T*>(g.b);
  if (!g.tb && g.m < kOften && (cols == kCols<T> || cols == kLanes<T>)) {
    *ld = g.ldb;
    return b + p * g.ldb + j;
  }
  *ld = kCols<T>;
  const int64_t read = cols <= kLanes<T> ? kLanes<T> : kCols<T>;
  for (int64_t i = 0; cols < read && i < depth; ++i)
    std::fill(packed + i * kCols<T> + cols, packed + i * kCols<T> + read, T(0));
  if (g.tb) {
    transpose(b + j * g.ldb + p, g.ldb, depth, cols, packed);
  } else {
    for (int64_t i = 0; i < depth; ++i)
      copy_row<kCols<T>>(b + (p + i) * g.ldb + j, cols, packed + i * kCols<T>);
  }
  return packed;
}

// Packs rows [i, i + rows) of op(A), columns [p, p + depth), in strips of kTileRows rows, which the
// tiles read sequentially.
template <class T>
void pack_rows(const GemmArgs& g, int64_t i, int64_t rows, int64_t p, int64_t depth, T* out) {
  const T* a = static_cast<const T*>(g.a);
  for (int64_t r = 0; r < rows; r += kTileRows, out += kTileRows * depth) {
    const int64_t some = std::min<int64_t>(kTileRows, rows - r);
    if (g.ta) {
      for (int64_t q = 0; q < depth; ++q)
        copy_row<kTileRows>(a + (p + q) * g.lda + i + r, some, out + q * kTileRows);
    } else {
      for (int64_t k = 0; k < some; ++k)
        std::copy_n(a + (i + r + k) * g.lda + p, depth, out + k * depth);
    }
  }
}

// Computes columns [j, j + cols) of C's rows [i, end) from one panel of B and all tiles of A.
template <class T>
void panel_product(const GemmArgs& g, Tiled<T> t, int64_t i, int64_t end, int64_t j, int64_t cols,
                   int64_t p, int64_t depth, const T* strips) {
  for (; i < end; i += kTileRows) {
    t.a = strips != nullptr ? strips : static_cast<const T*>(g.a) + i * t.row + p * t.step;
    if (strips != nullptr) strips += kTileRows * depth;
    t.c = static_cast<T*>(g.c) + i * g.ldc + j;
    const int rows = static_cast<int>(std::min<int64_t>(kTileRows, end - i));
    if (cols <= kLanes<T>)
      tile_of<T, 1>(rows, t, depth, cols);
    else
      tile_of<T, kMostVectors>(rows, t, depth, cols);
  }
}

template <class T>
void product(const GemmArgs& g) {
  alignas(64) T packed[kDepth * kCols<T>];
  const bool strips = g.m >= kOften && g.n >= 4 * kCols<T> && g.k >= kOften;
  const int64_t block =
      strips ? std::min(kBlockRows, (g.m + kTileRows - 1) / kTileRows * kTileRows) : g.m;
  const std::unique_ptr<T[]> a(strips ? new T[static_cast<size_t>(block * kDepth)] : nullptr);
  Tiled<T> t{};
  t.alpha = static_cast<T>(g.alpha);
  t.ldc = g.ldc;
  for (int64_t p = 0; p < g.k; p += kDepth) {
    const int64_t depth = std::min(kDepth, g.k - p);
    t.row = g.ta ? 1 : strips ? depth : g.lda;
    t.step = g.ta ? (strips ? kTileRows : g.lda) : 1;
    t.beta = p == 0 ? static_cast<T>(g.beta) : T(1);
    for (int64_t i = 0; i < g.m; i += block) {
      const int64_t end = std::min(i + block, g.m);
      if (strips) pack_rows(g, i, end - i, p, depth, a.get());
      for (int64_t j = 0; j < g.n; j += kCols<T>) {
        const int64_t cols = std::min(kCols<T>, g.n - j);
        t.b = panel_of<T>(g, p, depth, j, cols, packed, &t.ldb);
        panel_product(g, t, i, end, j, cols, p, depth, a.get());
      }
    }
  }
}

void run(DType t, const GemmArgs& g) {
  if (t == DType::Float32)
    product<float>(g);
  else
    product<double>(g);
}

}  // namespace

GemmTile gemm_tile() { return {run}; }

}  // namespace cograd::kernels::COGRAD_ISA
