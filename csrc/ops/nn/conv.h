// SPDX-License-Identifier: BSD-3-Clause
// The convolution on which all conv functions are based, and its gradients. Each is linear in
// either tensor, and the gradients of each are the other two.
#pragma once
#include "kernels/conv/conv.h"
#include "ops/declare/ops.h"

namespace cograd {

// Strides, paddings and dilations have an entry for each spatial dim.
struct ConvOptions {
  Dims stride, padding, dilation;
  int64_t groups = 1;
};

// Raises unless strides and dilations are positive, paddings are not negative, and groups >= 1.
void check_options(const ConvOptions& o);

// Computes (N, O, *out) from x (N, C, *in), w (O, C / groups, *kernel) and bias (O, 1, ...), which
// may be undefined.
Tensor conv(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvOptions& o);
// Returns the gradient with respect to x of shape `sizes`: the transposed convolution of g.
Tensor conv_input_grad(const Tensor& g, const Tensor& w, IntList sizes, const ConvOptions& o);
Tensor conv_weight_grad(const Tensor& g, const Tensor& x, IntList sizes, const ConvOptions& o);

// Returns (in + 2 padding - dilation (kernel - 1) - 1) / stride + 1 with overflow checks; raises if
// the kernel is larger than the padded input.
Dims conv_output_sizes(IntList x, IntList w, const ConvOptions& o);

}  // namespace cograd
