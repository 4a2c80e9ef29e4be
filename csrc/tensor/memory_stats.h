// SPDX-License-Identifier: BSD-3-Clause
// What tensors hold.
#pragma once
#include <cstdint>

#include "cograd/error.h"

namespace cograd {

// Bytes of tensor data that live in blocks of their own: all but those of at most 256 bytes.
COGRAD_API int64_t live_bytes() noexcept;

}  // namespace cograd
