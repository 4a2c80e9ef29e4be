// SPDX-License-Identifier: BSD-3-Clause
// Looks up conversion loops in the tables of the chosen instruction set.
#include "kernels/core/cast.h"

#include "kernels/core/isa.h"
#include "tensor/slot.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(LoopTable, cast_table)
COGRAD_ISA_VALUE(LoopTable, fill_table)

LoopFn cast_loop(DType from, DType to) noexcept {
  return cast_table()[static_cast<int>(from)][static_cast<int>(to)];
}
LoopFn fill_loop(DType t) noexcept { return fill_table()[0][static_cast<int>(t)]; }

void copy_strided(DType from, DType to, int ndim, const int64_t* shape, const Operand& out,
                  const Operand& in) {
  COGRAD_SLOT(copy_strided, from, to, ndim, shape, out, in);
  const Operand ops[] = {out, in};
  run_loop(cast_loop(from, to), ndim, shape, ops, 2, nullptr);
}

}  // namespace cograd::kernels
