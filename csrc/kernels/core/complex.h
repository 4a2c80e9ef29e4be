// SPDX-License-Identifier: BSD-3-Clause
// Declares loops between complex elements and their parts.
#pragma once
#include "cograd/dtype.h"
#include "kernels/core/loops.h"

namespace cograd::kernels {

enum class ComplexOp : uint8_t {
  Abs,    // real = |z|
  Angle,  // real = atan2(im, re)
  Conj,   // complex
  Sgn,    // complex = z / |z|, 0 for 0
  kCount
};

// Returns the loop of `op`. Its operands are out and in; `t` is the complex dtype of the input.
COGRAD_API LoopFn complex_loop(ComplexOp op, DType t) noexcept;

}  // namespace cograd::kernels
