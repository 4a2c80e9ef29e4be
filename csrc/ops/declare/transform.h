// SPDX-License-Identifier: BSD-3-Clause
// The entry points for calls that a transform must handle; their arguments arrive boxed.
#pragma once
#include "autograd/transforms/double_vjp.h"
#include "autograd/transforms/levels.h"
#include "ops/declare/registry.h"

namespace cograd {

// Applies the rule of the highest visible level; `r` need not be in the table.
COGRAD_API void call_transformed(const OpRecord& r, const Value* args, Result& out);
COGRAD_API void call_transformed_inplace(const OpRecord& r, const Tensor& self, const Value* args);
// Raises if a visible transform affects a call with out=.
COGRAD_API void check_transformed_out(const OpRecord& r, TensorList outs, const Value* args);

// True if a result computed from these tensors may be differentiated in either mode.
inline bool differentiable(std::initializer_list<const Tensor*> tensors) noexcept {
  for (const Tensor* t : tensors)
    if ((thread_state.grad_enabled && requires_grad(*t)) || (transforms_open() && transformed(*t)))
      return true;
  return false;
}

namespace detail {

// Makes the next op on this thread bypass transforms, whatever its arguments are.
struct BypassTransforms {
  BypassTransforms() noexcept { thread_state.bypass_transforms = true; }
  ~BypassTransforms() { thread_state.bypass_transforms = false; }
  BypassTransforms(const BypassTransforms&) = delete;
  BypassTransforms& operator=(const BypassTransforms&) = delete;
};

}  // namespace detail

}  // namespace cograd
