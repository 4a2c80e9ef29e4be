// SPDX-License-Identifier: BSD-3-Clause
// Chooses the loop of an optimizer.
#include "kernels/optim/optim.h"

#include "kernels/core/isa.h"
#include "kernels/optim/optim_loops.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(OptimLoops, optim_loops)

LoopFn optim_loop(OptimRule rule, unsigned flags, DType t) noexcept {
  if (flags >= kOptimVariants) return nullptr;
  const OptimVariant& v = optim_loops().of[static_cast<int>(rule)][flags];
  switch (t) {
    case DType::Float16:
      return v.loops[0];
    case DType::BFloat16:
      return v.loops[1];
    case DType::Float32:
      return v.loops[2];
    case DType::Float64:
      return v.loops[3];
    default:
      return nullptr;
  }
}

int optim_operands(OptimRule rule, unsigned flags) noexcept {
  return flags < kOptimVariants ? optim_loops().of[static_cast<int>(rule)][flags].operands : 0;
}

}  // namespace cograd::kernels
