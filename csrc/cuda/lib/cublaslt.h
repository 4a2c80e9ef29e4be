// SPDX-License-Identifier: BSD-3-Clause
// Products of floating and complex matrices by NVIDIA's cuBLASLt, where that library is installed.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"
#include "cuda/lib/library.h"

namespace cograd::cuda {

// A row-major product C = alpha op(A) op(B) + beta C, as kernels::gemm_batched describes it.
struct Product {
  DType dtype;
  bool ta, tb;
  int64_t m, n, k;
  double alpha;
  const void* a;
  int64_t lda, stride_a;
  const void* b;
  int64_t ldb, stride_b;
  double beta;
  void* c;
  int64_t ldc, stride_c, batch;
};

// Starts the product on the current stream. Returns false, and does nothing, if the library is not
// there or has no algorithm for it.
bool cublaslt_product(const Product& p);
const Library& cublaslt();

}  // namespace cograd::cuda
