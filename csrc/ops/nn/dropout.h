// SPDX-License-Identifier: BSD-3-Clause
// Dropout for ops that are composed with it.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// dropout by the default generator; x itself when there is nothing to do, as in torch.
Tensor dropped(const Tensor& x, double p, bool train);

}  // namespace cograd
