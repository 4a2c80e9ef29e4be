// SPDX-License-Identifier: BSD-3-Clause
// The op behind average pooling and interpolation: a linear map of each of the last dims.
#pragma once
#include <memory>

#include "kernels/resample.h"
#include "ops/core/ops.h"

namespace cograd {

// A map and its transpose, which its gradient is; made once for a call and its derivatives.
struct ResampleMaps {
  int dims = 0;  // how many of the last dims it takes
  std::shared_ptr<const kernels::Resampling> map, transposed;
  bool kinked = false;  // ops/core/kinked.h
};

// x (*, in) to (*, out), of a floating dtype or int64.
Tensor resample(const Tensor& x, const ResampleMaps& maps);

}  // namespace cograd
