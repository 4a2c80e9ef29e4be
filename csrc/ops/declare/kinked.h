// SPDX-License-Identifier: BSD-3-Clause
// Gradients of piecewise linear ops. Such a gradient is constant almost everywhere in the op's
// input, so no formula connects the two. torch returns zeros when it is differentiated again, and a
// loss made only of it can be differentiated; these functions add that connection.
#pragma once
#include "ops/declare/op.h"

namespace cograd {

namespace detail {
COGRAD_API Tensor kinked_gradient(Tensor grad, const Node& node, size_t input);
}

// Connects the gradient of input `input` in a backward to this input, with a derivative of zero.
inline Tensor kinked(const CtxBase& ctx, Tensor grad, size_t input = 0) {
  if (!thread_state.grad_enabled || !grad.defined()) [[likely]]
    return grad;
  return detail::kinked_gradient(std::move(grad), *ctx.node(), input);
}

// Returns `x` for a composition: its gradient then depends on `x` with a derivative of zero.
COGRAD_API Tensor kinked(const Tensor& x);

}  // namespace cograd
