// SPDX-License-Identifier: BSD-3-Clause
// The table of the optimizers' loops for one instruction set.
#pragma once
#include "kernels/optim/optim.h"

namespace cograd::kernels {

struct OptimVariant {
  LoopFn loops[4];  // float16, bfloat16, float32, float64
  int operands;
};
struct OptimLoops {
  OptimVariant of[static_cast<int>(OptimRule::kCount)][kOptimVariants];
};

}  // namespace cograd::kernels
