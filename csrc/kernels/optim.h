// SPDX-License-Identifier: BSD-3-Clause
// One step of an optimizer over one parameter, in one pass.
#pragma once
#include "cograd/dtype.h"
#include "kernels/loops.h"

namespace cograd::kernels {

enum class OptimRule : uint8_t {
  SGD,
  Adam,
  RMSprop,
  Adagrad,
  Adadelta,
  Adamax,
  NAdam,
  RAdam,
  Rprop,
  ASGD,
  kCount
};

// Variants of the rules.
enum OptimFlags : unsigned {
  kOptimDecay = 1,      // all: weight_decay is added to the gradient
  kOptimMomentum = 2,   // SGD, RMSprop
  kOptimNesterov = 4,   // SGD
  kOptimFresh = 8,      // SGD: the buffer is made in this step
  kOptimCentered = 4,   // RMSprop
  kOptimAmsgrad = 2,    // Adam
  kOptimRectified = 2,  // RAdam
  kOptimAveraged = 2,   // ASGD
  kOptimVariants = 16,
};
inline constexpr int kOptimScalars = 10;

// The numbers that each rule reads, by place. Those of all come first.
namespace optim_scalar {
enum : int {
  kSign,    // -1 to maximize
  kDecay,   // of kOptimDecay
  kRate,    // what the update is multiplied by
  kShrink,  // Adam, NAdam, RAdam, ASGD: the parameter is multiplied by it first
  kOwn,     // from here on: as the rule's struct says
};
}  // namespace optim_scalar

// Operands: parameter, gradient, then the state; all but the gradient are written. `params` points
// to kOptimScalars doubles. Null if there is no such variant. 16-bit floats are computed in float.
LoopFn optim_loop(OptimRule rule, unsigned flags, DType t) noexcept;
int optim_operands(OptimRule rule, unsigned flags) noexcept;

}  // namespace cograd::kernels
