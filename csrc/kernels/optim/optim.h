// SPDX-License-Identifier: BSD-3-Clause
// Runs one step of an optimizer over one parameter, in one pass.
#pragma once
#include <string_view>

#include "cograd/dtype.h"
#include "kernels/core/loops.h"

namespace cograd::kernels {

// Variants of the rules.
enum OptimFlags : unsigned {
  kOptimDecay = 1,      // all: adds weight_decay to the gradient
  kOptimMomentum = 2,   // SGD, RMSprop
  kOptimNesterov = 4,   // SGD
  kOptimFresh = 8,      // SGD: this step creates the momentum buffer
  kOptimCentered = 4,   // RMSprop
  kOptimAmsgrad = 2,    // Adam
  kOptimRectified = 2,  // RAdam
  kOptimAveraged = 2,   // ASGD
  kOptimVariants = 16,
};
inline constexpr int kOptimScalars = 10;

// The scalars that each rule reads, by position. The ones that all rules share come first.
namespace optim_scalar {
enum : int {
  kSign,    // -1 to maximize
  kDecay,   // for kOptimDecay
  kRate,    // factor of the update
  kShrink,  // Adam, NAdam, RAdam, ASGD: factor that first scales the parameter
  kOwn,     // the rule's own scalars start here: see its struct
};
}  // namespace optim_scalar

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
const OptimRule* optim_rule(std::string_view name) noexcept;
// Returns the loop of a variant, or null if there is none. Its operands are the parameter, the
// gradient and the state; all but the gradient are written. `params` points to kOptimScalars
// doubles. 16-bit floats are computed in float.
LoopFn optim_loop(const OptimRule& rule, unsigned flags, DType t) noexcept;

}  // namespace cograd::kernels
