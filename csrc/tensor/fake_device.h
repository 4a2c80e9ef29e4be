// SPDX-License-Identifier: BSD-3-Clause
// The fake device: a test of the seam between ops and devices that needs no hardware. Its memory is
// mapped twice. Tensors point to a view that nobody may access, so an op that reads or writes
// memory by itself faults. Kernels run on the CPU, through a second view at a constant distance.
#pragma once
#include <cstdint>

#include "tensor/storage.h"

namespace cograd {

// True if COGRAD_FAKE_DEVICE is 1 in the environment.
COGRAD_API bool fake_device_enabled() noexcept;
// Returns memory of the device; raises OutOfMemoryError if its range is used up.
Storage* make_fake_storage(int64_t nbytes);
// Returns where kernels find `p`, which is `p` itself if it is not on the device.
COGRAD_API void* kernel_view(const void* p) noexcept;

}  // namespace cograd
