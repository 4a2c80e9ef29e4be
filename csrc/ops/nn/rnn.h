// SPDX-License-Identifier: BSD-3-Clause
// One recurrent layer in one direction, and what it is in terms of other ops.
#pragma once
#include <optional>

#include "kernels/rnn.h"
#include "ops/core/ops.h"

namespace cograd::rnn {

using kernels::RnnMode;

// Tensors of a layer: rows [total, I], states [batch, P] and [batch, H], weights as torch has them.
struct Inputs {
  Tensor x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr;
};
// Rows of each step and where they begin.
struct Plan {
  RnnMode mode = RnnMode::Tanh;
  bool reverse = false;
  int64_t batch = 0;
  std::vector<int64_t> sizes, offsets;
  int64_t steps() const { return static_cast<int64_t>(sizes.size()); }
};
struct Gradients {
  Tensor x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr;
};
// The gradients in terms of ops, for derivatives of them.
Gradients differentiable_backward(const Plan& plan, const Inputs& in, const Tensor& g_out,
                                  const Tensor& g_h, const Tensor& g_c);

}  // namespace cograd::rnn
