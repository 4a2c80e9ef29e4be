// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <cstdint>
#include <span>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Returns the number, in C order, of the first NaN (`nan`) or infinite element (`inf`), or -1;
// strides are in elements. Dtypes without such values have none.
int64_t first_nonfinite(DType t, const void* x, std::span<const int64_t> sizes,
                        std::span<const int64_t> strides, bool contiguous, bool nan,
                        bool inf) noexcept;
// Returns the value of one element of a dtype that has such values, for an error message.
Complex<double> shown_value(DType t, const void* element) noexcept;

}  // namespace cograd::kernels
