// SPDX-License-Identifier: BSD-3-Clause
// Errors that kernels find while they run: the program learns of them when it next waits.
#pragma once
#include "cuda/args/late_args.h"

namespace cograd::cuda {

// The record in host memory that kernels write.
device::LateError* late_error();
// Raises the recorded error, if there is one, and clears it. The caller has waited for the kernels;
// without, it finds the errors of those that have ended.
void raise_late();

}  // namespace cograd::cuda
