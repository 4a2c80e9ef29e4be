// SPDX-License-Identifier: BSD-3-Clause
// Chooses the loop of an optimizer.
#include "kernels/optim/optim.h"

#include "kernels/core/isa.h"
#include "kernels/optim/optim_loops.h"
#include "tensor/slot.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(OptimRules, optim_rules)

const OptimRule* optim_rule(std::string_view name) noexcept {
  for (const OptimRule& rule : optim_rules())
    if (name == rule.name) return &rule;
  return nullptr;
}

LoopFn optim_loop(const OptimRule& rule, unsigned flags, DType t) noexcept {
  if (flags >= kOptimVariants) return nullptr;
  const OptimVariant& v = rule.variants[flags];
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

void optim_steps(std::span<const OptimStep> steps) {
  COGRAD_SLOT(optim_steps, steps);
  for (const OptimStep& s : steps) run_loop(s.loop, s.ndim, s.shape, s.ops, s.nops, s.scalars, 2);
}

}  // namespace cograd::kernels
