// SPDX-License-Identifier: BSD-3-Clause
// The memory that tensors hold.
#pragma once
#include <cstdint>

#include "cograd/error.h"

namespace cograd {

// Returns the bytes of tensor data in separate blocks. Data of at most 256 bytes is not counted: it
// is allocated together with its Storage.
COGRAD_API int64_t live_bytes() noexcept;

}  // namespace cograd
