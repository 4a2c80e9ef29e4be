// SPDX-License-Identifier: BSD-3-Clause
// Checks parameters for which an op has no derivative (kConstants in traits.h).
#pragma once
#include "autograd/graph/variable.h"
#include "cograd/error.h"

namespace cograd {

// Raises if a gradient with respect to `t` would be dropped.
inline void check_constant(const char* op, const Tensor& t, const char* name) {
  COGRAD_CHECK(!thread_state.grad_enabled || !t.defined() || !requires_grad(t), "The function '",
               op, "' is not differentiable with respect to argument '", name,
               "'. This input cannot have requires_grad True.");
}

}  // namespace cograd
