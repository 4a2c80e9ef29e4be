// SPDX-License-Identifier: BSD-3-Clause
// Layer normalisation over the last axis of a contiguous [rows, n], forward and fused backward.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Computes y = (x - mean) * rstd * weight + bias. weight and bias (n entries of x's dtype) may be
// null. mean and rstd (rows entries) are float for float16/bfloat16/float32, double for float64.
void layer_norm_forward(DType t, const void* x, const void* weight, const void* bias, int64_t rows,
                        int64_t n, double eps, void* y, void* mean, void* rstd);

// Any of gx[rows, n], gweight[n] and gbias[n] may be null.
void layer_norm_backward(DType t, const void* g, const void* x, const void* mean, const void* rstd,
                         const void* weight, int64_t rows, int64_t n, void* gx, void* gweight,
                         void* gbias);

}  // namespace cograd::kernels
