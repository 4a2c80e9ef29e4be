// SPDX-License-Identifier: BSD-3-Clause
// The products that other slots of the device consist of, as in kernels/product/gemm.h.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::cuda {

void gemm(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const void* a,
          int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc);
void gemm_batched(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha,
                  const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                  int64_t stride_b, double beta, void* c, int64_t ldc, int64_t stride_c,
                  int64_t batch);

}  // namespace cograd::cuda
