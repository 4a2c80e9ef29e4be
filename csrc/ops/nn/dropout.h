// SPDX-License-Identifier: BSD-3-Clause
// Dropout for composite ops.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// Applies dropout with the default generator; returns x itself if nothing changes, as in torch.
Tensor dropped(const Tensor& x, double p, bool train);

}  // namespace cograd
