// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Writes n values, which lie on the host, as elements of dtype t; 16-bit floats are rounded twice,
// to float first.
void store_doubles(DType t, const double* values, int64_t n, void* out);

}  // namespace cograd::kernels
