// SPDX-License-Identifier: BSD-3-Clause
// Products of floating dtypes in the stated order (docs/numerics.md): chooses how operands are
// packed and how work is divided among threads, neither of which changes a bit.
#pragma once
#include "kernels/product/gemm_small.h"

namespace cograd::kernels {

// Require k > 0 and a real floating dtype. Without `split`, the calling thread computes all.
void own_gemm(DType t, const GemmArgs& g, bool split);
void own_gemm_batched(DType t, const GemmArgs& g, const BatchSteps& s, int64_t batch);
// Computes y = alpha op(A) x + beta y, where A is stored m x n, as gemv does.
void own_gemv(DType t, bool ta, int64_t m, int64_t n, double alpha, const void* a, int64_t lda,
              const void* x, int64_t incx, double beta, void* y, int64_t incy, bool split);

}  // namespace cograd::kernels
