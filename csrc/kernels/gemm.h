// SPDX-License-Identifier: BSD-3-Clause
// Matrix products, row-major: OpenBLAS for the floating dtypes, own loops for integers.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// C = alpha * op(A) op(B) + beta * C; op(A) is m x k, op(B) is k x n. A is stored m x k (k x m when
// ta) with row length lda elements. beta = 0 never reads C. All dtypes; bool is a logical or-and.
void gemm(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const void* a,
          int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc);

// C = op(A) op(B), or C += it, in one piece on this thread: for tasks that are themselves pieces.
void gemm_here(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void* a,
               int64_t lda, const void* b, int64_t ldb, bool add, void* c, int64_t ldc);

// `batch` products whose operands lie stride_* elements apart (0 = the same matrix).
void gemm_batched(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha,
                  const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                  int64_t stride_b, double beta, void* c, int64_t ldc, int64_t stride_c,
                  int64_t batch);

// y = alpha * op(A) x + beta * y; A is stored m x n row-major, op(A) = A^T when ta.
void gemv(DType t, bool ta, int64_t m, int64_t n, double alpha, const void* a, int64_t lda,
          const void* x, int64_t incx, double beta, void* y, int64_t incy);
// *out = sum x[i] * y[i]; increments in elements.
void dot(DType t, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy, void* out);
// A (m x n, row length lda) = alpha * x y^T + beta * A.
void ger(DType t, int64_t m, int64_t n, double alpha, const void* x, int64_t incx, const void* y,
         int64_t incy, double beta, void* a, int64_t lda);

// Tells OpenBLAS to use num_threads() (1 inside a parallel region); LAPACK callers use it too.
void sync_blas_threads();

}  // namespace cograd::kernels
