// SPDX-License-Identifier: BSD-3-Clause
// Declares the inner loops of softmax.h and cross entropy, with one copy per instruction set.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

enum class SoftmaxOp : uint8_t {
  Softmax,             // a = x
  LogSoftmax,          // a = x
  SoftmaxBackward,     // a = g, b = y
  LogSoftmaxBackward,  // a = g, b = y
};

// Processes `rows` contiguous rows of n elements.
using SoftmaxRows = void (*)(SoftmaxOp op, DType t, const void* a, const void* b, void* out,
                             int64_t rows, int64_t n);
// Processes `width` adjacent columns of n rows, which are `inner` elements apart.
using SoftmaxColumns = void (*)(SoftmaxOp op, DType t, const void* a, const void* b, void* out,
                                int64_t n, int64_t inner, int64_t width);
// Computes out[i] = exp(a[i]) * scale.
using ScaledExp = void (*)(DType t, const void* a, double scale, void* out, int64_t n);

struct SoftmaxLoops {
  SoftmaxRows rows;
  SoftmaxColumns columns;
  ScaledExp scaled_exp;
};
const SoftmaxLoops& softmax_loops();

// Columns that a task handles at once.
inline constexpr int64_t kSoftmaxTile = 64;

}  // namespace cograd::kernels
