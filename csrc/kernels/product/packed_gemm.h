// SPDX-License-Identifier: BSD-3-Clause
// Matrix products on the calling thread with a right side that is packed once and used many times,
// in the stated order (docs/numerics.md). gemm_tile.cpp has the code, once per instruction set.
#pragma once
#include "kernels/product/fused.h"

namespace cograd::kernels::COGRAD_ISA {

// Number of columns of a panel: two vectors.
template <class T>
inline constexpr int kPanel = 2 * kLanes<T>;

// Returns the number of elements that pack() writes for a matrix of k rows and n columns.
template <class T>
constexpr int64_t packed_size(int64_t k, int64_t n) {
  return (n + kPanel<T> - 1) / kPanel<T> * kPanel<T> * k;
}

// Packs panels of the k x n matrix with elements b[i * row_step + j * col_step], of which one step
// must be 1; pads with zeros.
template <class T>
void pack(const T* b, int64_t row_step, int64_t col_step, int64_t k, int64_t n, T* out);

// Computes C (m x n, row length ldc) = A B or, if `add`, C + A B. b must be packed. A's element
// (i, p) is a[i * row_step + p * col_step].
template <class T>
void gemm_packed(bool add, int64_t m, int64_t n, int64_t k, const T* a, int64_t row_step,
                 int64_t col_step, const T* b, T* c, int64_t ldc);

}  // namespace cograd::kernels::COGRAD_ISA
