// SPDX-License-Identifier: BSD-3-Clause
// The stages in front of ops: devices and transforms. Their calls arrive boxed.
#pragma once
#include "ops/declare/device_stage.h"
#include "transforms/double_vjp.h"
#include "transforms/levels.h"

namespace cograd {

// Runs a call that a stage may have to handle: the stages in their order, then the op itself. `r`
// need not be in the table.
COGRAD_API void run_stages(const OpRecord& r, const CallForm& form, const Value* args, Result& out);
// Raises if a visible transform affects a call with out=.
COGRAD_API void check_transformed_out(const OpRecord& r, TensorList outs, const Value* args);

// True if a result computed from these tensors may be differentiated in either mode.
inline bool differentiable(std::initializer_list<const Tensor*> tensors) noexcept {
  for (const Tensor* t : tensors)
    if ((thread_state.grad_enabled && requires_grad(*t)) || (transforms_open() && transformed(*t)))
      return true;
  return false;
}

}  // namespace cograd
