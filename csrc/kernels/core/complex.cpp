// SPDX-License-Identifier: BSD-3-Clause
// Looks up the loops over complex elements in the tables of the chosen instruction set.
#include "kernels/core/complex.h"

#include "kernels/core/isa.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(LoopTable, complex_table)

LoopFn complex_loop(ComplexOp op, DType t) noexcept {
  return complex_table()[static_cast<int>(op)][static_cast<int>(t)];
}

}  // namespace cograd::kernels
