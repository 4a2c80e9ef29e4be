// SPDX-License-Identifier: BSD-3-Clause
// The op behind average pooling and interpolation: a linear map of each of the last dims.
#pragma once
#include <memory>

#include "kernels/nn/resample.h"
#include "ops/declare/ops.h"

namespace cograd {

// A map and its transpose, which the gradient uses; created once for a call and its derivatives.
struct ResampleMaps {
  int dims = 0;  // number of last dims that it maps
  std::shared_ptr<const kernels::Resampling> map, transposed;
  bool kinked = false;  // ops/declare/kinked.h
};

// Maps x (*, in) to (*, out); x has a floating dtype or int64.
Tensor resample(const Tensor& x, const ResampleMaps& maps);

}  // namespace cograd
