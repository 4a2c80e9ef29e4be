// SPDX-License-Identifier: BSD-3-Clause
// Communication between GPUs by NVIDIA's NCCL, where that library is installed.
#pragma once
#include "cuda/lib/library.h"
#include "tensor/nccl.h"

namespace cograd::cuda {

Nccl& nccl_calls();
const Library& nccl_library();

}  // namespace cograd::cuda
