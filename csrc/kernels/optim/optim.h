// SPDX-License-Identifier: BSD-3-Clause
// Runs one step of an optimizer over one parameter, in one pass.
#pragma once
#include <span>
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

inline constexpr int kOptimOperands = 5;

// A counter of steps in memory of the device. It is increased there, and the scalars that depend on
// it follow: the rate is divided by 1 - beta1^step, and the scalar kOwn + 3, which is 1, by the
// root of 1 - beta2^step; a beta of 0 divides by 1.
struct OptimCount {
  void* counter = nullptr;  // null: the host has counted
  bool single = false;      // float32, else float64
  double beta1 = 0, beta2 = 0;
};

// The step of one parameter: a loop with its operands, whose strides are in bytes.
struct OptimStep {
  LoopFn loop;
  int ndim, nops;
  const int64_t* shape;
  const double* scalars;  // kOptimScalars of them
  Operand ops[kOptimOperands];
  OptimCount count = {};

  template <class F>
  void each_pointer(F&& f) {
    for (int k = 0; k < nops; ++k) f(ops[k].data);
  }
};
// Runs steps that share no memory but what all of them only read. A GPU runs many of them by one
// kernel.
COGRAD_API void optim_steps(std::span<const OptimStep> steps);

}  // namespace cograd::kernels
