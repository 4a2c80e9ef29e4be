// SPDX-License-Identifier: BSD-3-Clause
// Where ops meet transforms: a call with an argument that a transform concerns comes here, boxed.
#pragma once
#include "autograd/double_vjp.h"
#include "autograd/levels.h"
#include "ops/core/registry.h"

namespace cograd {

// By the rule of the highest level that is seen here; `r` need not be in the table.
COGRAD_API void call_transformed(const OpRecord& r, const Value* args, Result& out);
COGRAD_API void call_transformed_inplace(const OpRecord& r, const Tensor& self, const Value* args);
// Raises if a transform that is seen here concerns a call with out=.
COGRAD_API void check_transformed_out(const OpRecord& r, TensorList outs, const Value* args);

// Whether what is computed from these may be differentiated in either mode.
inline bool differentiable(std::initializer_list<const Tensor*> tensors) noexcept {
  for (const Tensor* t : tensors)
    if ((thread_state.grad_enabled && requires_grad(*t)) || (transforms_open() && transformed(*t)))
      return true;
  return false;
}

namespace detail {

// The next op on this thread runs as it is, whatever its arguments are.
struct LookedAt {
  LookedAt() noexcept { thread_state.looked_at = true; }
  ~LookedAt() { thread_state.looked_at = false; }
  LookedAt(const LookedAt&) = delete;
  LookedAt& operator=(const LookedAt&) = delete;
};

}  // namespace detail

}  // namespace cograd
