// SPDX-License-Identifier: BSD-3-Clause
// Transposes matrices in blocks that fit into registers. Only the per-ISA kernel files include
// this.
#pragma once
#include "kernels/reduce/reduce_vec.h"

namespace cograd::kernels::COGRAD_ISA {

template <class T>
using LaneIndex = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

// Swaps bit H of the row index with bit H of the column index.
template <class T, int H>
COGRAD_INLINE void exchange(Vec<T, kLanes<T>>* rows) {
  constexpr int L = kLanes<T>;
  Vec<LaneIndex<T>, L> low, high;
#pragma GCC unroll 16
  for (int j = 0; j < L; ++j) {
    low[j] = static_cast<LaneIndex<T>>((j & H) != 0 ? j - H + L : j);
    high[j] = static_cast<LaneIndex<T>>((j & H) != 0 ? j + L : j + H);
  }
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) {
    if ((i & H) != 0) continue;
    const Vec<T, L> a = rows[i], b = rows[i + H];
    rows[i] = __builtin_shuffle(a, b, low);
    rows[i + H] = __builtin_shuffle(a, b, high);
  }
}

// Transposes as many rows as a vector has lanes.
template <class T>
void transpose_block(const T* from, int64_t from_row, T* to, int64_t to_row) {
  constexpr int L = kLanes<T>;
  Vec<T, L> rows[L];
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) rows[i] = load(from + i * from_row);
  if constexpr (L > 1) exchange<T, 1>(rows);
  if constexpr (L > 2) exchange<T, 2>(rows);
  if constexpr (L > 4) exchange<T, 4>(rows);
  if constexpr (L > 8) exchange<T, 8>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) store<T, L>(to + i * to_row, rows[i]);
}

// Writes to[j * width + i] = from[i * from_row + j] for j below n, with zeros from i = rows on.
template <class T>
void transpose(const T* from, int64_t from_row, int64_t rows, int64_t n, int64_t width, T* to) {
  constexpr int64_t L = kLanes<T>;
  const int64_t j_end = n / L * L, i_end = rows / L * L;
  for (int64_t j = 0; j < j_end; j += L)
    for (int64_t i = 0; i < i_end; i += L)
      transpose_block(from + i * from_row + j, from_row, to + j * width + i, width);
  const auto one = [&](int64_t j, int64_t i) {
    to[j * width + i] = i < rows ? from[i * from_row + j] : T(0);
  };
  for (int64_t j = 0; j < j_end; ++j)
    for (int64_t i = i_end; i < width; ++i) one(j, i);
  for (int64_t j = j_end; j < n; ++j)
    for (int64_t i = 0; i < width; ++i) one(j, i);
}

}  // namespace cograd::kernels::COGRAD_ISA
