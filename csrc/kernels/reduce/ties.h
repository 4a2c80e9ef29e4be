// SPDX-License-Identifier: BSD-3-Clause
// Divides the gradient of an extreme value among the elements that have that value.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// x and out are contiguous [outer, n, inner], y and g [outer, inner], of dtype float or double.
// Computes out = g / number of ties where x equals y (NaN equals NaN), and 0 elsewhere. Without
// `nan_ties` NaN equals nothing, and a line whose y is NaN becomes NaN everywhere.
void split_ties(DType t, const void* x, int64_t outer, int64_t n, int64_t inner, const void* y,
                const void* g, bool nan_ties, void* out);

}  // namespace cograd::kernels
