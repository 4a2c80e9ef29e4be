// SPDX-License-Identifier: BSD-3-Clause
// Products of matrices and vectors of Float32 or Float64 on the calling thread, with one copy per
// instruction set.
#pragma once
#include "cograd/dtype.h"

namespace cograd::kernels {

// y = alpha op(A) x + beta y for `out` elements of y and `terms` terms each. x is contiguous. With
// beta = 0, y is not read.
struct GemvArgs {
  int64_t out, terms;
  double alpha;
  const void* a;
  int64_t lda;
  const void* x;
  double beta;
  void* y;
  int64_t incy;
};

struct GemvLoops {
  // Multiplies the rows of A. A sum has 64 bytes of interleaved chains that are added in pairs.
  void (*rows)(DType t, const GemvArgs& g);
  // Multiplies the transpose of A; the sums have the order of matrix products.
  void (*columns)(DType t, const GemvArgs& g);
  // Returns the sum of x[i] * y[i], with 128 bytes of chains.
  double (*dot)(DType t, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy);
};
const GemvLoops& gemv_loops();

}  // namespace cograd::kernels
