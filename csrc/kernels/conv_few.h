// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of so few positions that one product of the whole batch is quickest: it reads the
// weights as they lie, where packing them would take as long as their products.
#pragma once
#include "kernels/conv.h"

namespace cograd::kernels {

bool few_forward_suits(DType t, const ConvShape& s);
void few_forward(DType t, const ConvShape& s, const void* x, const void* w, const void* bias,
                 void* y);

}  // namespace cograd::kernels
