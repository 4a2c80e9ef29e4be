// SPDX-License-Identifier: BSD-3-Clause
// Cumulative operations over the middle axis of a contiguous [outer, n, inner].
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// x and y have the same dtype and may be the same memory. Bool is not accepted: the caller converts
// it to int64, as torch does.
void cumsum(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);
void cumprod(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);
// Accepts floating dtypes only; an -inf prefix stays -inf.
void logcumsumexp(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);

// Compute the running extreme and the position where it was last reached; NaN wins and stays.
void cummax(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
            int64_t inner);
void cummin(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
            int64_t inner);

// Computes s[k] = a[k] + b[k] s[k - 1], or s[k + 1] if `reverse`; b may be null, which means 1.
// 16-bit floats are computed in float.
void linear_recurrence(DType t, const void* a, const void* b, void* s, int64_t outer, int64_t n,
                       int64_t inner, bool reverse);
// Accepts complex dtypes only.
void complex_logcumsumexp(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);

}  // namespace cograd::kernels
