// SPDX-License-Identifier: BSD-3-Clause
// Separable linear maps of the last dims. Interpolation, average pooling and their gradients are
// such maps.
#pragma once
#include <cstdint>
#include <vector>

#include "cograd/dtype.h"

namespace cograd::kernels {

// The map out[i] = sum over t < count[i] of weight[i * taps + t] * in[start[i] + t]; start never
// decreases.
struct ResampleDim {
  int64_t in = 1, out = 1, taps = 1;
  bool identity = true;
  std::vector<int64_t> start, count;
  std::vector<double> weight;

  // Returns the map that computes the gradient.
  ResampleDim transposed() const;
};

struct Resampling {
  ResampleDim dims[3];  // missing dims come first

  int64_t in_size() const { return dims[0].in * dims[1].in * dims[2].in; }
  int64_t out_size() const { return dims[0].out * dims[1].out * dims[2].out; }
  Resampling transposed() const {
    return {{dims[0].transposed(), dims[1].transposed(), dims[2].transposed()}};
  }
};

// Computes y (planes, out) from x (planes, in), both contiguous, of a floating dtype or int64.
void resample(DType t, const Resampling& r, int64_t planes, const void* x, void* y);

}  // namespace cograd::kernels
