// SPDX-License-Identifier: BSD-3-Clause
// The gradient of an extreme value, divided among the elements that have it.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// x and out are contiguous [outer, n, inner], y and g [outer, inner], of dtype float or double.
// out = g / number of ties where x equals y (NaN equals NaN), elsewhere 0. Without `nan_ties` NaN
// equals nothing, and a line whose y is NaN is NaN throughout.
void split_ties(DType t, const void* x, int64_t outer, int64_t n, int64_t inner, const void* y,
                const void* g, bool nan_ties, void* out);

}  // namespace cograd::kernels
