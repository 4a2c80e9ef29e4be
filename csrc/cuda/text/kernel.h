// SPDX-License-Identifier: BSD-3-Clause
// Gives a user's kernel that includes <cograd/kernel.h> integers of stated sizes, 16-bit and
// complex numbers as tensors store them, and the thread's index in the grid.
#pragma once
#include "prelude.h"

#if defined(__CUDACC_RTC__)
using cograd::device::int16_t;
using cograd::device::int32_t;
using cograd::device::int64_t;
using cograd::device::int8_t;
using cograd::device::uint16_t;
using cograd::device::uint32_t;
using cograd::device::uint64_t;
using cograd::device::uint8_t;
#endif

namespace cograd {
using device::BFloat16;
using device::Complex;
using device::grid_index;
using device::grid_size;
using device::Half;
}  // namespace cograd
