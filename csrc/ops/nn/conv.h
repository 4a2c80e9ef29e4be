// SPDX-License-Identifier: BSD-3-Clause
// The convolution that all functions are made of, and its gradients; each is linear in either
// tensor, and the gradients of each are the others.
#pragma once
#include "kernels/conv.h"
#include "ops/core/ops.h"

namespace cograd {

// Strides, paddings and dilations have an entry for each spatial dim.
struct ConvOptions {
  Dims stride, padding, dilation;
  int64_t groups = 1;
};

// Raises unless strides and dilations are positive, paddings are not negative, there are groups.
void check_options(const ConvOptions& o);

// x (N, C, *in), w (O, C / groups, *kernel), bias (O, 1, ...) or undefined: (N, O, *out).
Tensor conv(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvOptions& o);
// The gradient of conv by x of shape `sizes`, which is the transposed convolution of g.
Tensor conv_input_grad(const Tensor& g, const Tensor& w, IntList sizes, const ConvOptions& o);
Tensor conv_weight_grad(const Tensor& g, const Tensor& x, IntList sizes, const ConvOptions& o);

// (in + 2 padding - dilation (kernel - 1) - 1) / stride + 1, checked; raises where the kernel is
// larger than the padded input.
Dims conv_output_sizes(IntList x, IntList w, const ConvOptions& o);

}  // namespace cograd
