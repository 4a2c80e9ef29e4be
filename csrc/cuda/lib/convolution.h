// SPDX-License-Identifier: BSD-3-Clause
// Convolutions by cuDNN, with a plan for each shape.
#pragma once
#include "kernels/conv/conv.h"
#include "tensor/backend.h"

namespace cograd::cuda {

enum class ConvPass : uint8_t { Forward, InputGrad, WeightGrad };

// Starts a pass on the current stream: y from (x, w), gx from (w, g), or gw from (x, g). Returns
// false, and does nothing, if cuDNN is missing, switched off, or does not compute that.
bool cudnn_convolution(ConvPass pass, DType t, const kernels::ConvShape& s, const void* a,
                       const void* b, void* c);

PlanNumbers convolution_plans(int gpu);
void limit_convolution_plans(int gpu, int64_t most);
void clear_convolution_plans(int gpu);

}  // namespace cograd::cuda
