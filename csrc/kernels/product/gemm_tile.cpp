// SPDX-License-Identifier: BSD-3-Clause
// Multiplies pieces of matrices in tiles. Compiled once per instruction set.
#include "kernels/product/gemm_tile.h"

#include "kernels/product/packing.h"

namespace cograd::kernels::COGRAD_ISA {

GemmTile gemm_tile();

namespace {

constexpr int64_t kTogether = 168 / kStripRows;  // strips of A that are copied at once
constexpr int64_t kCachedLeft = 1 << 16;         // elements of A that stay in the cache

template <class T>
Tile<T> tile_for(const GemmArgs& g) {
  Tile<T> t{};
  t.alpha = static_cast<T>(g.alpha);
  t.beta = static_cast<T>(g.beta);
  t.ldc = g.ldc;
  t.last = kLanes<T>;
  return t;
}

// Multiplies thin strips of rows by pairs of panels; returns the first column that is left.
template <class T>
int64_t thin_pairs(Tile<T>& t, int64_t rows, int64_t n, int64_t pair_step) {
  int64_t j = 0;
  for (; n - j >= 2 * kPanel<T>; j += 2 * kPanel<T>) {
    tile_of<T>(rows, 4)(t);
    t.b += pair_step;
    t.c += 2 * kPanel<T>;
  }
  return j;
}

// Multiplies rows of A, which t.a starts at, by the panel that t.b starts at.
template <class T>
COGRAD_INLINE void strip_times_panel(Tile<T>& t, int64_t rows, int64_t cols) {
  const bool two = cols > kLanes<T>;
  t.last = two ? cols - kLanes<T> : cols;
  tile_of<T>(rows, two ? 2 : 1)(t);
}

// Calls f(p, depth, j, cols) for all parts of k and all panels up to column `end`. Parts of a large
// A are used by all panels, so that they stay in the cache; rows of B that are pages apart are also
// read in parts, so that their pages stay known.
template <class T, class F>
COGRAD_INLINE void each_part(const GemmArgs& g, int64_t first, int64_t end, F&& f) {
  const auto part = [&](int64_t p, int64_t j) {
    f(p, std::min(kDepth, g.k - p), j, std::min<int64_t>(kPanel<T>, end - j));
  };
  if (g.m * g.k > kCachedLeft || (!g.tb && g.ldb * static_cast<int64_t>(sizeof(T)) >= 8192)) {
    for (int64_t p = 0; p < g.k; p += kDepth)
      for (int64_t j = first; j < end; j += kPanel<T>) part(p, j);
  } else {
    for (int64_t j = first; j < end; j += kPanel<T>)
      for (int64_t p = 0; p < g.k; p += kDepth) part(p, j);
  }
}

// Multiplies from the operands as they lie. `room` has place for a panel: one that is stored
// transposed is turned first, and last columns are copied if tiles cannot read them.
template <class T>
void direct_in(const GemmArgs& g, const Piece& piece, T* room) {
  const EvenParts strips(g.m, divide_up(g.m, kStripRows));
  const int64_t end = std::min(piece.panel_end * kPanel<T>, g.n), i0 = strips.first(piece.strip);
  int64_t first = piece.panel * kPanel<T>;
  Tile<T> t = tile_for<T>(g);
  t.row = g.ta ? 1 : g.lda;
  t.step = g.ta ? g.lda : 1;
  const T* a = static_cast<const T*>(g.a);
  const T* b = static_cast<const T*>(g.b);
  T* c = static_cast<T*>(g.c);
  if (!g.tb && strips.parts == 1 && g.m <= kThinRows) {
    t.panel = kPanel<T>;
    t.ldb = g.ldb;
    t.depth = g.k;
    t.a = a;
    t.b = b + first;
    t.c = c + first;
    first += thin_pairs<T>(t, g.m, end - first, 2 * kPanel<T>);
  }
  each_part<T>(g, first, end, [&](int64_t p, int64_t depth, int64_t j, int64_t cols) {
    const bool readable = !g.tb && (kReadsEdges || cols % kLanes<T> == 0);
    t.depth = depth;
    t.beta = p == 0 ? static_cast<T>(g.beta) : T(1);
    t.b = readable ? b + p * g.ldb + j : room;
    t.ldb = readable ? g.ldb : kPanel<T>;
    if (g.tb)
      turn_all(b + j * g.ldb + p, g.ldb, depth, cols, room, kPanel<T>);
    else if (!readable)
      pack_straight(b + p * g.ldb + j, g.ldb, depth, cols, room);
    for (int64_t s = piece.strip, i = i0; s < piece.strip_end; ++s) {
      const int64_t next = strips.first(s + 1);
      t.a = a + i * t.row + p * t.step;
      t.c = c + i * g.ldc + j;
      strip_times_panel(t, next - i, cols);
      i = next;
    }
  });
}

template <class T>
void direct_as(const GemmArgs& g, const Piece& piece) {
  alignas(64) T room[kDepth * kPanel<T>];
  direct_in(g, piece, room);
}
void direct(DType t, const GemmArgs& g, const Piece& piece) {
  t == DType::Float64 ? direct_as<double>(g, piece) : direct_as<float>(g, piece);
}

// Calls f with a value of the dtype's type.
template <class F>
void with_type(DType t, F&& f) {
  switch (t) {
    case DType::Float64:
      return f(double());
    case DType::Float16:
      return f(Half());
    case DType::BFloat16:
      return f(BFloat16());
    default:
      return f(float());
  }
}

void pack_panels(DType t, const GemmArgs& g, int64_t p, int64_t depth, int64_t panel,
                 int64_t panel_end, void* to) {
  with_type(t, [&]<class S>(S) {
    using T = Acc<S>;
    const int64_t first = panel * kPanel<T>, end = std::min(panel_end * kPanel<T>, g.n);
    pack_right<S>(g, p, depth, first, end - first, static_cast<T*>(to));
  });
}

// Multiplies up to kTogether strips, whose copies are in `room` if `copied`, by all panels of a
// piece.
template <class T>
void strips_times_panels(const GemmArgs& g, Tile<T>& t, const EvenParts& strips, const Piece& piece,
                         const T* a, int64_t strip_step, const T* b) {
  for (int64_t panel = piece.panel; panel < piece.panel_end; ++panel, b += t.depth * kPanel<T>) {
    const int64_t j = panel * kPanel<T>, cols = std::min<int64_t>(kPanel<T>, g.n - j);
    t.b = b;
    for (int64_t s = piece.strip; s < piece.strip_end; ++s) {
      const int64_t i = strips.first(s), rows = strips.first(s + 1) - i;
      t.a = a + (strip_step > 0 ? (s - piece.strip) * strip_step : i * t.row);
      t.c = static_cast<T*>(g.c) + i * g.ldc + j;
      strip_times_panel(t, rows, cols);
    }
  }
}

template <class T>
using PackLeft = void (*)(const GemmArgs& g, int64_t i, int64_t rows, int64_t p, int64_t depth,
                          T* to);

// `pack_left` copies strips; without it the operand can be read as it lies.
template <class T>
void packed_as(const GemmArgs& g, Piece piece, const PackedRight& b, PackLeft<T> pack_left,
               bool copied) {
  const EvenParts strips(g.m, divide_up(g.m, kStripRows));
  constexpr int64_t kStrip = kDepth * kStripWidth<T>;
  const int64_t together = std::min(kTogether, piece.strip_end - piece.strip);
  const Scratch scratch(copied ? together * kStrip * static_cast<int64_t>(sizeof(T)) : 0);
  T* const room = scratch.as<T>();
  Tile<T> t = tile_for<T>(g);
  t.ldb = kPanel<T>;
  const int64_t end = piece.strip_end;
  for (; piece.strip < end; piece.strip = piece.strip_end) {
    piece.strip_end = std::min(piece.strip + kTogether, end);
    for (int64_t p = b.p; p < b.end; p += kDepth) {
      t.depth = std::min(kDepth, b.end - p);
      t.beta = p == 0 ? static_cast<T>(g.beta) : T(1);
      const T* panels = static_cast<const T*>(b.data) + (p - b.p) * b.panels * kPanel<T> +
                        (piece.panel - b.first) * t.depth * kPanel<T>;
      for (int64_t s = piece.strip; copied && s < piece.strip_end; ++s)
        pack_left(g, strips.first(s), strips.first(s + 1) - strips.first(s), p, t.depth,
                  room + (s - piece.strip) * kStrip);
      t.row = g.ta ? 1 : copied ? t.depth : g.lda;
      t.step = g.ta ? (copied ? kStripWidth<T> : g.lda) : 1;
      const T* a = copied ? room : static_cast<const T*>(g.a) + p * t.step;
      strips_times_panels<T>(g, t, strips, piece, a, copied ? kStrip : 0, panels);
    }
  }
}
void packed(DType t, const GemmArgs& g, const Piece& piece, const PackedRight& b) {
  const bool copied = rows_collide(t, g) || piece.panel_end - piece.panel >= 4;
  if (t == DType::Float64) return packed_as<double>(g, piece, b, pack_left<double>, copied);
  if (t == DType::Float32) return packed_as<float>(g, piece, b, pack_left<float>, copied);
  packed_as<float>(g, piece, b, t == DType::Float16 ? pack_left<Half> : pack_left<BFloat16>, true);
}

template <class T>
void add_blocks_as(int64_t n, int64_t blocks, const T* block, int64_t step, T alpha, T beta, T* c) {
  constexpr int L = kLanes<T>;
  for (int64_t j = 0; j < n; j += L) {
    const FirstLanes<T> some(std::min<int64_t>(L, n - j));
    Vec<T, L> sum = broadcast(alpha) * some.load(block + j);
    if (beta != T(0))
      sum = fused(broadcast(alpha), some.load(block + j), broadcast(beta) * some.load(c + j));
    for (int64_t i = 1; i < blocks; ++i)
      sum = fused(broadcast(alpha), some.load(block + i * step + j), sum);
    some.store(c + j, sum);
  }
}
void add_blocks(DType t, int64_t n, int64_t blocks, const void* block, int64_t step, double alpha,
                double beta, void* c) {
  if (t == DType::Float64)
    return add_blocks_as(n, blocks, static_cast<const double*>(block), step, alpha, beta,
                         static_cast<double*>(c));
  add_blocks_as(n, blocks, static_cast<const float*>(block), step, static_cast<float>(alpha),
                static_cast<float>(beta), static_cast<float*>(c));
}

int64_t panel_cols(DType t) { return t == DType::Float64 ? kPanel<double> : kPanel<float>; }

void widen(DType t, const void* from, int64_t n, float* to) {
  t == DType::Float16 ? widen_row(static_cast<const Half*>(from), n, to)
                      : widen_row(static_cast<const BFloat16*>(from), n, to);
}
void narrow(DType t, const float* from, int64_t n, void* to) {
  t == DType::Float16 ? narrow_row(from, n, static_cast<Half*>(to))
                      : narrow_row(from, n, static_cast<BFloat16*>(to));
}

}  // namespace

template <class T>
void pack(const T* b, int64_t row_step, int64_t col_step, int64_t k, int64_t n, T* out) {
  GemmArgs g{};
  g.b = b;
  g.tb = col_step != 1;
  g.ldb = g.tb ? col_step : row_step;
  pack_right<T>(g, 0, k, 0, n, out);
}

template <class T>
void gemm_packed(bool add, int64_t m, int64_t n, int64_t k, const T* a, int64_t row_step,
                 int64_t col_step, const T* b, T* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  Tile<T> t{};
  t.row = row_step;
  t.step = col_step;
  t.ldb = kPanel<T>;
  t.panel = k * kPanel<T>;
  t.depth = k;
  t.alpha = 1;
  t.beta = add ? T(1) : T(0);
  t.ldc = ldc;
  const EvenParts strips(m, divide_up(m, kStripRows));
  for (int64_t s = 0, i = 0; s < strips.parts; ++s) {
    const int64_t rows = strips.first(s + 1) - i;
    t.a = a + i * row_step;
    t.b = b;
    t.c = c + i * ldc;
    t.last = kLanes<T>;
    int64_t j = rows <= kThinRows ? thin_pairs<T>(t, rows, n, 2 * t.panel) : 0;
    for (; j < n; j += kPanel<T>, t.b += t.panel, t.c += kPanel<T>)
      strip_times_panel(t, rows, std::min<int64_t>(kPanel<T>, n - j));
    i += rows;
  }
}

template void pack(const float*, int64_t, int64_t, int64_t, int64_t, float*);
template void pack(const double*, int64_t, int64_t, int64_t, int64_t, double*);
template void gemm_packed(bool, int64_t, int64_t, int64_t, const float*, int64_t, int64_t,
                          const float*, float*, int64_t);
template void gemm_packed(bool, int64_t, int64_t, int64_t, const double*, int64_t, int64_t,
                          const double*, double*, int64_t);

GemmTile gemm_tile() {
  return {kStripRows, panel_cols, direct, pack_panels, packed, add_blocks, widen, narrow};
}

}  // namespace cograd::kernels::COGRAD_ISA
