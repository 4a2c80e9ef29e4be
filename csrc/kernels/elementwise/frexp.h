// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Splits n elements of a floating dtype into mantissas in [0.5, 1) and powers of 2; the power of
// inf and NaN is 0.
void frexp(DType t, const void* x, int64_t n, void* mantissa, int32_t* exponent);

}  // namespace cograd::kernels
