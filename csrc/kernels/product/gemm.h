// SPDX-License-Identifier: BSD-3-Clause
// Computes row-major matrix products: OpenBLAS for floating dtypes, cograd's loops for integers.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Computes C = alpha * op(A) op(B) + beta * C, where op(A) is m x k and op(B) is k x n. A is stored
// as m x k (k x m if ta) with rows lda elements apart. beta = 0 never reads C. Supports all dtypes;
// bool is a logical or of ands.
void gemm(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const void* a,
          int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc);

// Computes C = op(A) op(B), or adds it to C, in one piece on this thread: for tasks that are pieces
// already.
void gemm_here(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void* a,
               int64_t lda, const void* b, int64_t ldb, bool add, void* c, int64_t ldc);

// Computes `batch` products whose operands are stride_* elements apart (0 = the same matrix).
void gemm_batched(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha,
                  const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                  int64_t stride_b, double beta, void* c, int64_t ldc, int64_t stride_c,
                  int64_t batch);

// Computes y = alpha * op(A) x + beta * y; A is stored m x n row-major, and op(A) = A^T if ta.
void gemv(DType t, bool ta, int64_t m, int64_t n, double alpha, const void* a, int64_t lda,
          const void* x, int64_t incx, double beta, void* y, int64_t incy);
// Computes *out = sum of x[i] * y[i]; increments are in elements.
void dot(DType t, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy, void* out);
// Computes A (m x n, row length lda) = alpha * x y^T + beta * A.
void ger(DType t, int64_t m, int64_t n, double alpha, const void* x, int64_t incx, const void* y,
         int64_t incy, double beta, void* a, int64_t lda);

}  // namespace cograd::kernels
