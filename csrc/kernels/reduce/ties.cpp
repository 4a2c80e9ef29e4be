// SPDX-License-Identifier: BSD-3-Clause
// Cuts [outer, n, inner] into pieces; counts the ties of all pieces first, then fills them.
#include "kernels/reduce/ties.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/core/isa.h"
#include "kernels/reduce/ties_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(TieLoops, tie_loops)

namespace {

constexpr int64_t kWidth = 512;         // columns per piece
constexpr int64_t kPiece = 1 << 15;     // elements per piece
constexpr int64_t kTieGrain = 1 << 14;  // elements per task

template <class T>
TieLoopsOf<T> loops_of() {
  const TieLoops& loops = tie_loops();
  if constexpr (std::is_same_v<T, float>)
    return loops.of_float;
  else
    return loops.of_double;
}

template <class T>
struct Ties {
  const T* x;
  int64_t outer, n, inner;
  const T* y;
  const T* g;
  bool nan_ties;
  T* out;
  TieLoopsOf<T> loops = loops_of<T>();
  int64_t width = std::min(inner, kWidth);
  int64_t tiles = (inner + kWidth - 1) / kWidth;
  int64_t rows = std::clamp<int64_t>(kPiece / width, 1, n);  // per piece
  int64_t pieces = (n + rows - 1) / rows;                    // per tile

  struct Piece {
    int64_t at, column, rows, width;  // first element; first column of y and g
  };
  Piece piece(int64_t task) const {
    const int64_t k = task % pieces, tile = task / pieces % tiles, o = task / pieces / tiles;
    const int64_t first = k * rows, j = tile * kWidth;
    return {(o * n + first) * inner + j, o * inner + j, std::min(rows, n - first),
            std::min(width, inner - j)};
  }
  void count(const Piece& p, int32_t* counts) const {
    loops.count(x + p.at, p.rows, inner, p.width, y + p.column, counts);
  }
  bool any_lost(int64_t column, int64_t n_columns) const {
    if (nan_ties) return false;
    bool lost = false;
    for (int64_t j = column; j < column + n_columns; ++j) lost |= y[j] != y[j];
    return lost;
  }
  // `lost` is true if some line consists of NaN only.
  void fill(const Piece& p, const T* share, bool lost) const {
    loops.fill(x + p.at, p.rows, inner, p.width, y + p.column, share, out + p.at);
    if (lost) [[unlikely]]
      lose(p);
  }
  [[gnu::noinline, gnu::cold]] void lose(const Piece& p) const {
    for (int64_t j = 0; j < p.width; ++j)
      if (const T best = y[p.column + j]; best != best)
        for (int64_t i = 0; i < p.rows; ++i) out[p.at + i * inner + j] = best;
  }
  // Computes in the formula's order: one tie's share of 1, times the gradient.
  static T part(int64_t count, T g) { return g * (T(1) / static_cast<T>(count)); }

  void at_once() const {
    const int64_t grain = std::max<int64_t>(1, kTieGrain / (n * width));
    parallel_for(0, outer * tiles, grain, [&](int64_t lo, int64_t hi) {
      int32_t counts[kWidth];
      T share[kWidth];
      for (; lo < hi; ++lo) {
        const Piece p = piece(lo);
        count(p, counts);
        for (int64_t j = 0; j < p.width; ++j) share[j] = part(counts[j], g[p.column + j]);
        fill(p, share, any_lost(p.column, p.width));
      }
    });
  }

  void in_pieces() const {
    const int64_t tasks = outer * tiles * pieces;
    std::vector<int32_t> counts(static_cast<size_t>(tasks * width));
    parallel_for(0, tasks, 1, [&](int64_t lo, int64_t hi) {
      for (; lo < hi; ++lo) count(piece(lo), counts.data() + lo * width);
    });
    std::vector<int64_t> total(static_cast<size_t>(outer * inner), 0);
    for (int64_t task = 0; task < tasks; ++task) {
      const Piece p = piece(task);
      for (int64_t j = 0; j < p.width; ++j)
        total[static_cast<size_t>(p.column + j)] += counts[static_cast<size_t>(task * width + j)];
    }
    std::vector<T> share(total.size());
    for (size_t i = 0; i < share.size(); ++i) share[i] = part(total[i], g[i]);
    const bool lost = any_lost(0, outer * inner);
    parallel_for(0, tasks, 1, [&](int64_t lo, int64_t hi) {
      for (; lo < hi; ++lo) {
        const Piece p = piece(lo);
        // Most pieces of one long line hold no tie and need not be read again.
        if (inner == 1 && counts[static_cast<size_t>(lo)] == 0 && !lost)
          std::fill_n(out + p.at, p.rows, T(0));
        else
          fill(p, share.data() + p.column, lost);
      }
    });
  }
};

template <class T>
void run(const void* x, int64_t outer, int64_t n, int64_t inner, const void* y, const void* g,
         bool nan_ties, void* out) {
  const Ties<T> ties{static_cast<const T*>(x),
                     outer,
                     n,
                     inner,
                     static_cast<const T*>(y),
                     static_cast<const T*>(g),
                     nan_ties,
                     static_cast<T*>(out)};
  if (ties.pieces == 1)
    ties.at_once();
  else
    ties.in_pieces();
}

}  // namespace

void split_ties(DType t, const void* x, int64_t outer, int64_t n, int64_t inner, const void* y,
                const void* g, bool nan_ties, void* out) {
  COGRAD_SLOT(split_ties, t, x, outer, n, inner, y, g, nan_ties, out);
  if (outer == 0 || n == 0 || inner == 0) return;
  HeavyScope heavy(outer * n * inner);
  if (t == DType::Float32)
    run<float>(x, outer, n, inner, y, g, nan_ties, out);
  else
    run<double>(x, outer, n, inner, y, g, nan_ties, out);
}

}  // namespace cograd::kernels
