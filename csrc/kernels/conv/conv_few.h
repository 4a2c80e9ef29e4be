// SPDX-License-Identifier: BSD-3-Clause
// Computes convolutions with so few positions that one product of the whole batch is fastest: it
// reads the weights in place, where packing them would take as long as multiplying.
#pragma once
#include "kernels/conv/conv.h"

namespace cograd::kernels {

bool few_forward_suits(DType t, const ConvShape& s);
void few_forward(DType t, const ConvShape& s, const void* x, const void* w, const void* bias,
                 void* y);

}  // namespace cograd::kernels
