// SPDX-License-Identifier: BSD-3-Clause
// Gradients of piecewise linear ops. As functions of the op's input they are constant almost
// everywhere, so that no formula leads there; of a gradient that is differentiated in turn torch
// has zeros nonetheless, and a loss made of it alone may be differentiated.
#pragma once
#include "ops/core/op.h"

namespace cograd {

namespace detail {
COGRAD_API Tensor kinked_gradient(Tensor grad, const Node& node, size_t input);
}

// In a backward: the gradient of input `input`, as one that depends on this with a derivative of 0.
inline Tensor kinked(const CtxBase& ctx, Tensor grad, size_t input = 0) {
  if (!thread_state.grad_enabled || !grad.defined()) [[likely]]
    return grad;
  return detail::kinked_gradient(std::move(grad), *ctx.node(), input);
}

// `x` for an op that is made of others: what its gradient depends on, so does the one of x.
COGRAD_API Tensor kinked(const Tensor& x);

}  // namespace cograd
