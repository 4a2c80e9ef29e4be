// SPDX-License-Identifier: BSD-3-Clause
// Declares the inner loops of resample.h, with one copy per instruction set.
#pragma once
#include "kernels/nn/resample.h"

namespace cograd::kernels {

struct ResampleLoops {
  void (*planes)(DType t, const Resampling& r, int64_t planes, const void* x, void* y);
};
const ResampleLoops& resample_loops();

}  // namespace cograd::kernels
