// SPDX-License-Identifier: BSD-3-Clause
// This header describes tensors to kernels.
#pragma once
#include "tensor/dims.h"

namespace cograd {

// Returns strides in bytes; throws if they do not fit into int64.
Dims byte_strides(IntList strides, int64_t itemsize);

}  // namespace cograd
