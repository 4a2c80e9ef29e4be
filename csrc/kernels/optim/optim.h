// SPDX-License-Identifier: BSD-3-Clause
// Runs one step of an optimizer over one parameter, in one pass.
#pragma once
#include <string_view>

#include "cograd/dtype.h"
#include "kernels/core/loops.h"
#include "kernels/optim/optim_flags.h"

namespace cograd::kernels {

struct OptimVariant {
  LoopFn loops[4];  // float16, bfloat16, float32, float64
  int operands;     // 0: the rule has no such variant
};
// The loops of an optimizer's rule, which the op of its step finds by name.
struct OptimRule {
  const char* name;
  OptimVariant variants[kOptimVariants];
};

// Returns the rule with that name, or null; optim_loops.cpp has the rules.
COGRAD_API const OptimRule* optim_rule(std::string_view name) noexcept;
// Returns the loop of a variant, or null if there is none. Its operands are the parameter, the
// gradient and the state; all but the gradient are written. `params` points to kOptimScalars
// doubles. 16-bit floats are computed in float.
COGRAD_API LoopFn optim_loop(const OptimRule& rule, unsigned flags, DType t) noexcept;

}  // namespace cograd::kernels
