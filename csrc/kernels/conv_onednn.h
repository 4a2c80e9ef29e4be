// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of float32 by oneDNN, which was loaded. Each returns false, having written nothing,
// where oneDNN has no implementation.
#pragma once
#include "kernels/conv.h"

namespace cograd::kernels {

bool onednn_conv_forward(DType t, const ConvShape& s, const void* x, const void* w,
                         const void* bias, void* y);
bool onednn_conv_input_grad(DType t, const ConvShape& s, const void* g, const void* w, void* gx);
bool onednn_conv_weight_grad(DType t, const ConvShape& s, const void* g, const void* x, void* gw);

}  // namespace cograd::kernels
