// SPDX-License-Identifier: BSD-3-Clause
// Products by the chosen BLAS: complex ones by default, real ones on request.
#pragma once
#include "kernels/product/gemm_small.h"

namespace cograd::kernels {

// Require k > 0 and a dtype of BLAS. `split`: in blocks that depend on the shape alone.
void blas_gemm(DType t, const GemmArgs& g, bool split);
void blas_gemm_batched(DType t, const GemmArgs& g, const BatchSteps& s, int64_t batch);
// Computes a matrix-vector product on this thread, as gemv does.
void blas_gemv(DType t, bool ta, int64_t m, int64_t n, double alpha, const void* a, int64_t lda,
               const void* x, int64_t incx, double beta, void* y, int64_t incy);

}  // namespace cograd::kernels
