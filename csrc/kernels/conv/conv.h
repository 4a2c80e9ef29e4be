// SPDX-License-Identifier: BSD-3-Clause
// Computes convolutions over one to three dims, and their gradients, for contiguous arrays.
#pragma once
#include <compare>
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Spatial dims count from the left; missing ones come first, with size 1.
struct ConvShape {
  int64_t batch = 0, groups = 1;
  int64_t in_channels = 0, out_channels = 0;  // per group
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t depth() const { return in_channels * taps(); }  // products summed per output element
  auto operator<=>(const ConvShape&) const = default;
  double work() const {
    return static_cast<double>(batch * groups) * static_cast<double>(out_channels * out_size()) *
           static_cast<double>(depth());
  }
};

// Computes y (N, G O, out) = x (N, G C, in) * w (G O, C, kernel) + bias (G O); bias may be null.
// Supports every numeric dtype; on the host, except the 16-bit floating ones.
void conv_forward(DType t, const ConvShape& s, const void* x, const void* w, const void* bias,
                  void* y);
// Compute the gradients of sum(y * g): gx with respect to x and gw with respect to w.
void conv_input_grad(DType t, const ConvShape& s, const void* g, const void* w, void* gx);
void conv_weight_grad(DType t, const ConvShape& s, const void* g, const void* x, void* gw);

// im2col writes to cols (N, C taps, P) the elements of x (N, C, in) under each tap, for each of P
// positions. col2im is its transpose: it writes to x the sums over all places that an element was
// copied to.
void im2col(DType t, const ConvShape& s, const void* x, void* cols);
void col2im(DType t, const ConvShape& s, const void* cols, void* x);

}  // namespace cograd::kernels
