// SPDX-License-Identifier: BSD-3-Clause
// Declares conversion, copy and fill loops between every pair of dtypes.
#pragma once
#include "cograd/dtype.h"
#include "kernels/core/loops.h"

namespace cograd::kernels {

// Returns a loop from in = ptrs[1] of dtype `from` to out = ptrs[0] of dtype `to`; never null.
// Float to bool is `!= 0`; float to integer truncates, and out-of-range values and NaN give what
// the x86 conversion gives. The loop never traps.
COGRAD_API LoopFn cast_loop(DType from, DType to) noexcept;

// Returns a loop that writes the element of dtype t that params points to into ptrs[0]; never null.
COGRAD_API LoopFn fill_loop(DType t) noexcept;

// Runs cast_loop over strided arrays: out (dtype `to`) = in (dtype `from`), strides in bytes.
COGRAD_API void copy_strided(DType from, DType to, int ndim, const int64_t* shape,
                             const Operand& out, const Operand& in);

}  // namespace cograd::kernels
