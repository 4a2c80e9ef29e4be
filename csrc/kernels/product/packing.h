// SPDX-License-Identifier: BSD-3-Clause
// Copies operands of products into the order in which tiles read them, widening 16-bit elements.
#pragma once
#include "kernels/product/tile_kernels.h"

namespace cograd::kernels::COGRAD_ISA {

// Elements of a row of a strip that was copied from a transposed A.
template <class T>
inline constexpr int64_t kStripWidth = (kStripRows + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
// Rows and columns of the squares that turn() transposes.
template <class T>
inline constexpr int64_t kSquare = kVectorBytes >= 32 && sizeof(T) == 4 ? 8 : 4;

// Computes to[p * step + j] = from(j)[p] for a square. The halves of a vector come from two rows,
// which the load combines: two shuffles a vector remain (one for double).
#if defined(__AVX2__)
template <class F>
COGRAD_INLINE void turn(F&& from, float* to, int64_t step) {
  for (int64_t half = 0; half < 8; half += 4, to += 4 * step) {
    __m256 r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from(i) + half)),
                                  _mm_loadu_ps(from(i + 4) + half), 1);
    const __m256 a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpackhi_ps(r[0], r[1]);
    const __m256 c = _mm256_unpacklo_ps(r[2], r[3]), d = _mm256_unpackhi_ps(r[2], r[3]);
    _mm256_storeu_ps(to, _mm256_shuffle_ps(a, c, 0x44));
    _mm256_storeu_ps(to + step, _mm256_shuffle_ps(a, c, 0xEE));
    _mm256_storeu_ps(to + 2 * step, _mm256_shuffle_ps(b, d, 0x44));
    _mm256_storeu_ps(to + 3 * step, _mm256_shuffle_ps(b, d, 0xEE));
  }
}
template <class F>
COGRAD_INLINE void turn(F&& from, double* to, int64_t step) {
#pragma GCC unroll 2
  for (int64_t half = 0; half < 4; half += 2) {
    __m256d r[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i)
      r[i] = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(from(i) + half)),
                                  _mm_loadu_pd(from(i + 2) + half), 1);
    _mm256_storeu_pd(to + half * step, _mm256_unpacklo_pd(r[0], r[1]));
    _mm256_storeu_pd(to + (half + 1) * step, _mm256_unpackhi_pd(r[0], r[1]));
  }
}
#else
template <class F, class T>
COGRAD_INLINE void turn(F&& from, T* to, int64_t step) {
  for (int64_t p = 0; p < 4; ++p)
    for (int64_t j = 0; j < 4; ++j) to[p * step + j] = from(j)[p];
}
#endif

// Computes to[p * step + j] = b[j * ldb + p] for `cols` columns; columns up to the next multiple of
// kSquare are overwritten with anything.
template <class T>
void turn_all(const T* b, int64_t ldb, int64_t depth, int64_t cols, T* to, int64_t step) {
  constexpr int64_t B = kSquare<T>;
  for (int64_t j = 0; j < cols; j += B) {
    const T* rows[B];
    for (int64_t i = 0; i < B; ++i) rows[i] = b + std::min(j + i, cols - 1) * ldb;
    for (int64_t p = 0; depth >= B && p < depth; p += B) {
      p = std::min(p, depth - B);
      turn([&](int64_t i) { return rows[i] + p; }, to + p * step + j, step);
    }
    for (int64_t p = 0; depth < B && p < depth; ++p)
      for (int64_t i = 0; i < B; ++i) to[p * step + j + i] = rows[i][p];
  }
}

// Packs one panel of `cols` columns from a B that is stored transposed.
template <class S>
void pack_turned(const S* b, int64_t ldb, int64_t depth, int64_t cols, Acc<S>* to) {
  using T = Acc<S>;
  if constexpr (std::is_same_v<S, T>) {
    turn_all(b, ldb, depth, cols, to, kPanel<T>);
  } else {
    constexpr int64_t B = kSquare<T>, kRun = 64;
    T wide[B * kRun];
    for (int64_t j = 0; j < cols; j += B) {
      const int64_t some = std::min(B, cols - j);
      for (int64_t p = 0; p < depth; p += kRun) {
        const int64_t run = std::min(kRun, depth - p);
        for (int64_t i = 0; i < some; ++i) widen_row(b + (j + i) * ldb + p, run, wide + i * kRun);
        turn_all(wide, kRun, run, some, to + p * kPanel<T> + j, kPanel<T>);
      }
    }
  }
}

// Packs panels of `cols` columns in all; a panel has `depth` rows.
template <class S>
void pack_straight(const S* b, int64_t ldb, int64_t depth, int64_t cols, Acc<S>* to) {
  using T = Acc<S>;
  constexpr int64_t L = kLanes<T>, P = kPanel<T>;
  const int64_t whole = cols / P * P, rest = cols - whole;
  for (int64_t p = 0; p < depth; ++p, b += ldb, to += P) {
    T* at = to;
    for (int64_t j = 0; j < whole; j += P, at += depth * P) {
      store<T, L>(at, load(b + j));
      store<T, L>(at + L, load(b + j + L));
    }
    if (rest > 0) store<T, L>(at, load_first(b + whole, std::min(L, rest)));
    if (rest > L) store<T, L>(at + L, load_first(b + whole + L, rest - L));
  }
}

// Packs rows [p, p + depth) of op(B)'s columns [first, first + cols), where first starts a panel.
template <class S>
void pack_right(const GemmArgs& g, int64_t p, int64_t depth, int64_t first, int64_t cols,
                Acc<S>* to) {
  constexpr int64_t P = kPanel<Acc<S>>, kTogether = 2048 / sizeof(S);
  const S* b = static_cast<const S*>(g.b);
  // Several panels at once read long runs of each row.
  const int64_t group = g.tb ? P : kTogether;
  for (int64_t j = 0; j < cols; j += group, to += group * depth) {
    const int64_t some = std::min(group, cols - j);
    if (g.tb)
      pack_turned(b + (first + j) * g.ldb + p, g.ldb, depth, some, to);
    else
      pack_straight(b + p * g.ldb + first + j, g.ldb, depth, some, to);
  }
}

// Copies rows [i, i + rows) of op(A), columns [p, p + depth): row by row, or kStripWidth elements
// for each column if A is stored transposed.
template <class S>
void pack_left(const GemmArgs& g, int64_t i, int64_t rows, int64_t p, int64_t depth, Acc<S>* to) {
  using T = Acc<S>;
  constexpr int64_t L = kLanes<T>;
  const S* a = static_cast<const S*>(g.a);
  if (!g.ta) {
    for (int64_t r = 0; r < rows; ++r) widen_row(a + (i + r) * g.lda + p, depth, to + r * depth);
    return;
  }
  a += p * g.lda + i;
  for (int64_t q = 0; q < depth; ++q, a += g.lda, to += kStripWidth<T>)
    for (int64_t r = 0; r < rows; r += L)
      store<T, L>(to + r, load_first(a + r, std::min(L, rows - r)));
}

}  // namespace cograd::kernels::COGRAD_ISA
