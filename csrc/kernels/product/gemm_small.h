// SPDX-License-Identifier: BSD-3-Clause
// Plain matrix products for any dtype: for integers and k = 0.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Arguments as for gemm. gemm_small computes rows [row_begin, row_end) of C on this thread.
struct GemmArgs {
  bool ta, tb;
  int64_t m, n, k;
  double alpha;
  const void* a;
  int64_t lda;
  const void* b;
  int64_t ldb;
  double beta;
  void* c;
  int64_t ldc;
};

// Distances between the matrices of a batch, in elements; 0 repeats a matrix.
struct BatchSteps {
  int64_t a, b, c;
  GemmArgs product(DType t, const GemmArgs& g, int64_t i) const {
    GemmArgs one = g;
    one.a = static_cast<const char*>(g.a) + i * a * dtype_size(t);
    one.b = static_cast<const char*>(g.b) + i * b * dtype_size(t);
    one.c = static_cast<char*>(g.c) + i * c * dtype_size(t);
    return one;
  }
};

void gemm_small(DType t, const GemmArgs& g, int64_t row_begin, int64_t row_end);

// Compute a strided sum of products and a rank-one update in the dtype's own arithmetic.
void dot_small(DType t, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy,
               void* out);
void ger_small(DType t, int64_t m, int64_t n, double alpha, const void* x, int64_t incx,
               const void* y, int64_t incy, double beta, void* a, int64_t lda);

}  // namespace cograd::kernels
