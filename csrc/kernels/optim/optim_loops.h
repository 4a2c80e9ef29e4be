// SPDX-License-Identifier: BSD-3-Clause
// The rules of optimizers with their loops for one instruction set.
#pragma once
#include <span>

#include "kernels/optim/optim.h"

namespace cograd::kernels {

using OptimRules = std::span<const OptimRule>;

}  // namespace cograd::kernels
