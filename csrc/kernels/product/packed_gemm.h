// SPDX-License-Identifier: BSD-3-Clause
// Computes matrix products on the calling thread with a right side that is packed once and used
// many times. Compiled once per instruction set.
#pragma once
#include <algorithm>

#include "kernels/product/register_tile.h"

namespace cograd::kernels::COGRAD_ISA {

// Number of columns of a panel: two vectors.
template <class T>
inline constexpr int kPanel = 2 * kLanes<T>;

// Returns the number of elements that pack() writes for a matrix of k rows and n columns.
template <class T>
constexpr int64_t packed_size(int64_t k, int64_t n) {
  return (n + kPanel<T> - 1) / kPanel<T> * kPanel<T> * k;
}

// Packs panels of the k x n matrix with elements b[i * row_step + j * col_step]; pads with zeros.
template <class T>
void pack(const T* b, int64_t row_step, int64_t col_step, int64_t k, int64_t n, T* out) {
  for (int64_t j0 = 0; j0 < n; j0 += kPanel<T>) {
    const int64_t cols = std::min<int64_t>(kPanel<T>, n - j0);
    for (int64_t i = 0; i < k; ++i) {
      const T* src = b + i * row_step + j0 * col_step;
      T* dst = out + i * kPanel<T>;
      if (col_step == 1)
        std::memcpy(dst, src, static_cast<size_t>(cols) * sizeof(T));
      else
        for (int64_t j = 0; j < cols; ++j) dst[j] = src[j * col_step];
      for (int64_t j = cols; j < kPanel<T>; ++j) dst[j] = 0;
    }
    out += k * kPanel<T>;
  }
}

// Computes C's tile of R rows and P panels (the last with `cols` columns) = A B; adds to C if Add.
template <class T, int R, int P, bool Add>
COGRAD_INLINE void packed_tile(int64_t k, const T* a, int64_t row_step, int64_t col_step,
                               const T* b, int64_t panel_step, T* c, int64_t ldc, int64_t cols) {
  constexpr int L = kLanes<T>;
  Vec<T, L> acc[R][2 * P] = {};
  add_products<T, R, 2 * P>(k, StridedFactors<T>{a, row_step, col_step},
                            PanelVectors<T>{b, kPanel<T>, panel_step}, acc);
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    T* dst = c + r * ldc;
#pragma GCC unroll 8
    for (int p = 0; p < 2 * P; ++p) {
      const int64_t left = (p < 2 * P - 2 ? kPanel<T> : cols) - p % 2 * L;
      T* at = dst + p * L;
      if (left >= L) {
        store<T, L>(at, Add ? acc[r][p] + load(at) : acc[r][p]);
      } else {
        for (int64_t j = 0; j < left; ++j) at[j] = Add ? acc[r][p][j] + at[j] : acc[r][p][j];
      }
    }
  }
}

template <class T, int R, int P, bool Add>
void packed_rows(int64_t n, int64_t k, const T* a, int64_t row_step, int64_t col_step, const T* b,
                 T* c, int64_t ldc) {
  const int64_t panel_step = k * kPanel<T>;
  int64_t j = 0;
  for (; n - j > (P - 1) * kPanel<T>; j += P * kPanel<T>) {
    const int64_t cols = std::min<int64_t>(kPanel<T>, n - j - (P - 1) * kPanel<T>);
    packed_tile<T, R, P, Add>(k, a, row_step, col_step, b, panel_step, c + j, ldc, cols);
    b += P * panel_step;
  }
  if constexpr (P > 1) {
    if (j < n) packed_rows<T, R, 1, Add>(n - j, k, a, row_step, col_step, b, c + j, ldc);
  }
}

// Computes C (m x n, row length ldc) = A B or, if Add, C + A B. b must be packed. A's element (i,
// p)
// is a[i * row_step + p * col_step]. Each row is added in the same order for any m.
template <class T, bool Add>
void gemm_packed(int64_t m, int64_t n, int64_t k, const T* a, int64_t row_step, int64_t col_step,
                 const T* b, T* c, int64_t ldc) {
  const auto rows = [&]<int R, int P>() {
    packed_rows<T, R, P, Add>(n, k, a, row_step, col_step, b, c, ldc);
    a += R * row_step;
    c += R * ldc;
    m -= R;
  };
  // 13 to 16 rows are two tiles of about the same size: one of 12 would leave a thin one.
  while (m >= kTileRows && (kTileRows <= 8 || m <= kTileRows || m > 16))
    rows.template operator()<kTileRows, 1>();
  if constexpr (kTileRows > 8) {
    while (m >= 8) rows.template operator()<8, 1>();
  }
  if constexpr (kTileRows > 4) {
    if (m >= 4) rows.template operator()<4, 1>();
  }
  if (m >= 2) rows.template operator()<2, 2>();
  if (m >= 1) rows.template operator()<1, 4>();
}

}  // namespace cograd::kernels::COGRAD_ISA
