// SPDX-License-Identifier: BSD-3-Clause
// Computes p-norm distances between all rows of two matrices, without an array of the differences.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Writes out[i, j] = |a[i] - b[j]|_p for a [n, m] and b [r, m], contiguous, float or double.
void cdist_forward(DType t, double p, const void* a, int64_t n, const void* b, int64_t r, int64_t m,
                   void* out);
// Writes out[i] = the sum over j of g[i, j] times the derivative of dist[i, j] with respect to
// a[i]. Rows of g and dist are row_step apart and columns col_step, so that a and b can be
// exchanged.
void cdist_backward(DType t, double p, const void* a, int64_t n, const void* b, int64_t r,
                    int64_t m, const void* g, const void* dist, int64_t row_step, int64_t col_step,
                    void* out);

struct CdistLoops {
  int64_t (*packed_size)(DType t, int64_t r, int64_t m);
  void (*pack)(DType t, const void* b, int64_t r, int64_t m, void* out);
  void (*forward)(DType t, double p, const void* a, const void* packed, int64_t r, int64_t m,
                  void* out, int64_t lo, int64_t hi);
  void (*backward)(DType t, double p, const void* a, const void* b, int64_t r, int64_t m,
                   const void* g, const void* dist, int64_t row_step, int64_t col_step, void* out,
                   int64_t lo, int64_t hi);
};
const CdistLoops& cdist_loops();

}  // namespace cograd::kernels
