// SPDX-License-Identifier: BSD-3-Clause
// Runs one step of an optimizer over many parameters.
#pragma once
#include <span>

#include "kernels/optim/optim.h"
#include "tensor/tensor.h"

namespace cograd {

using kernels::OptimRule;

inline constexpr int kOptimState = 3;     // tensors of the parameter's size
inline constexpr int kOptimCounters = 3;  // one-element tensors: the step, then the rule's own

struct OptimItem {
  Tensor param, grad;
  Tensor state[kOptimState];
  Tensor counters[kOptimCounters];
  bool fresh = false;  // the state was created for this step
};

// Updates every item in one pass over its memory; step.cpp lists the `options`. Returns false
// without changes if the loops do not apply (transforms, dtypes that differ or have no loop).
// Raises before the first write if an item must not be written.
COGRAD_API bool optim_step(const char* op, OptimRule rule, std::span<OptimItem> items,
                           std::span<const double> options);
// Return the number of state tensors and counters of an item; raise if options are missing.
COGRAD_API int optim_states(OptimRule rule, std::span<const double> options);
COGRAD_API int optim_counters(OptimRule rule) noexcept;

}  // namespace cograd
