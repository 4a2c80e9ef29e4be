// SPDX-License-Identifier: BSD-3-Clause
// Tells devices that compile their kernels which ones they will need.
#pragma once
#include "kernels/core/loops.h"

namespace cograd::kernels {

// Says that a loop will be run soon: with `flat`, over operands that are contiguous or one element.
// Returns false if the device does not prepare for it now.
COGRAD_API bool expect_loop(LoopFn fn, bool flat);

}  // namespace cograd::kernels
