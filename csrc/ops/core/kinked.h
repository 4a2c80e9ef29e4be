// SPDX-License-Identifier: BSD-3-Clause
// Gradients of piecewise linear ops. Such a gradient is constant almost everywhere in the op's
// input, so no formula connects the two. torch returns zeros when it is differentiated again, and a
// loss made only of it can be differentiated; these functions add that connection.
#pragma once
#include "ops/core/op.h"

namespace cograd {

namespace detail {
COGRAD_API Tensor kinked_gradient(Tensor grad, const Node& node, size_t input);
}

// In backward: connects the gradient of input `input` to this input with a derivative of zero.
inline Tensor kinked(const CtxBase& ctx, Tensor grad, size_t input = 0) {
  if (!thread_state.grad_enabled || !grad.defined()) [[likely]]
    return grad;
  return detail::kinked_gradient(std::move(grad), *ctx.node(), input);
}

// The same for a composition: the gradient of the returned tensor depends on `x` with derivative 0.
COGRAD_API Tensor kinked(const Tensor& x);

}  // namespace cograd
