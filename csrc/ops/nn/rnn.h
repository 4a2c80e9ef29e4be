// SPDX-License-Identifier: BSD-3-Clause
// One recurrent layer in one direction, and its gradients in terms of other ops.
#pragma once
#include <optional>

#include "kernels/nn/rnn.h"
#include "ops/declare/ops.h"

namespace cograd::rnn {

using kernels::RnnMode;

// A layer's tensors: rows [total, I], states [batch, P] and [batch, H], weights in torch's layout.
struct Inputs {
  Tensor x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr;
};
// The number of rows of each step, and the row at which each step starts.
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
struct Outputs {
  Tensor out, h, c;  // rows [total, P], the last states and cells
};
// Computes the layer with differentiable ops, for devices without a kernel for it.
Outputs composed_forward(const Plan& plan, const Inputs& in);
// One step of an LSTM: its output gate and new cells, from gates before activation (rnn_cell.cpp).
std::tuple<Tensor, Tensor> lstm_cell(const Tensor& gates, const Tensor& c);
// Computes the gradients with differentiable ops, for higher derivatives.
Gradients differentiable_backward(const Plan& plan, const Inputs& in, const Tensor& g_out,
                                  const Tensor& g_h, const Tensor& g_c);

}  // namespace cograd::rnn
