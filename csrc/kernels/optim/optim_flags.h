// SPDX-License-Identifier: BSD-3-Clause
// The variants and scalars of optimizers' rules, for the host and for the text of GPUs' kernels.
#pragma once

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

}  // namespace cograd::kernels
