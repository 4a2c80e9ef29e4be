// SPDX-License-Identifier: BSD-3-Clause
// Kernels whose text is a user's. They are compiled and kept on disk as cograd's own are.
#pragma once
#include "cuda/driver/api.h"
#include "tensor/backend.h"

namespace cograd::cuda {

// Returns the function for the GPU of the thread's place. The text may include cograd/kernel.h and
// the standard headers of integers (text/kernel.h).
CUfunction user_function(const KernelText& k);

}  // namespace cograd::cuda
