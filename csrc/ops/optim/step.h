// SPDX-License-Identifier: BSD-3-Clause
// One step of an optimizer over many parameters.
#pragma once
#include <span>

#include "kernels/optim.h"
#include "tensor/tensor.h"

namespace cograd {

using kernels::OptimRule;

inline constexpr int kOptimState = 3;     // tensors of a parameter's size
inline constexpr int kOptimCounters = 3;  // of one element: the step, then the rule's own

struct OptimItem {
  Tensor param, grad;
  Tensor state[kOptimState];
  Tensor counters[kOptimCounters];
  bool fresh = false;  // its state was made for this step
};

// Updates every item in one pass over its memory. `options` as listed in step.cpp. False, with
// nothing done, where the loops do not apply: dtypes that differ or have no loop, transforms.
// Raises before anything is written where an item must not be written.
COGRAD_API bool optim_step(const char* op, OptimRule rule, std::span<OptimItem> items,
                           std::span<const double> options);
// How many of the two kinds the items have, given the options; raises if those are too few.
COGRAD_API int optim_states(OptimRule rule, std::span<const double> options);
COGRAD_API int optim_counters(OptimRule rule) noexcept;

}  // namespace cograd
