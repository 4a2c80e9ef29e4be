// SPDX-License-Identifier: BSD-3-Clause
// Computes convolutions without columns: reads padded copies of images at shifted places.
#pragma once
#include "kernels/conv/conv.h"

namespace cograd::kernels {

// True if this method suits the shape and dtype. The answer must not depend on threads.
bool direct_forward_suits(DType t, const ConvShape& s);
bool direct_input_grad_suits(DType t, const ConvShape& s);
bool direct_weight_grad_suits(DType t, const ConvShape& s);

void direct_forward(DType t, const ConvShape& s, const void* x, const void* w, const void* bias,
                    void* y);
void direct_input_grad(DType t, const ConvShape& s, const void* g, const void* w, void* gx);
void direct_weight_grad(DType t, const ConvShape& s, const void* g, const void* x, void* gw);

}  // namespace cograd::kernels
