// SPDX-License-Identifier: BSD-3-Clause
// softmax and log_softmax, forward and backward, over the middle axis of [outer, n, inner].
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Accept floating dtypes and contiguous arrays; y (or gx) may be the same memory as an input.
void softmax(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);
void log_softmax(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);

// Computes gx = y * (g - sum(g * y)); y is the result of softmax.
void softmax_backward(DType t, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                      int64_t inner);
// Computes gx = g - exp(y) * sum(g); y is the result of log_softmax.
void log_softmax_backward(DType t, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                          int64_t inner);

}  // namespace cograd::kernels
