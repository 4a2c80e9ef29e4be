// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Computes out[i] = x[i] * keep[i] * scale for n elements of a floating or complex dtype.
void masked_scale(DType t, const void* x, const bool* keep, double scale, int64_t n, void* out);

}  // namespace cograd::kernels
