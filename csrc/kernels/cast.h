// SPDX-License-Identifier: BSD-3-Clause
// Conversion, copy and fill loops between every pair of dtypes.
#pragma once
#include "cograd/dtype.h"
#include "kernels/loops.h"

namespace cograd::kernels {

// out = ptrs[0] of dtype `to`, in = ptrs[1] of dtype `from`. Never null. Float to bool is `!= 0`,
// float to integer truncates, out of range and NaN as the x86 conversion gives it; never traps.
COGRAD_API LoopFn cast_loop(DType from, DType to) noexcept;

// Writes the one element of dtype t that params points to into ptrs[0]. Never null.
COGRAD_API LoopFn fill_loop(DType t) noexcept;

// run_loop of cast_loop: out (dtype `to`) = in (dtype `from`), strides in bytes.
COGRAD_API void copy_strided(DType from, DType to, int ndim, const int64_t* shape,
                             const Operand& out, const Operand& in);

}  // namespace cograd::kernels
