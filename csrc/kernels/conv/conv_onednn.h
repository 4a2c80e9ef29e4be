// SPDX-License-Identifier: BSD-3-Clause
// Computes convolutions of float32 by oneDNN, which must be loaded. Each function returns false,
// and writes nothing, if oneDNN has no implementation.
#pragma once
#include "kernels/conv/conv.h"

namespace cograd::kernels {

bool onednn_conv_forward(DType t, const ConvShape& s, const void* x, const void* w,
                         const void* bias, void* y);
bool onednn_conv_input_grad(DType t, const ConvShape& s, const void* g, const void* w, void* gx);
bool onednn_conv_weight_grad(DType t, const ConvShape& s, const void* g, const void* x, void* gw);

}  // namespace cograd::kernels
