// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "ops/declare/device_stage.h"

namespace cograd {

// Like to_device, but a copy from pinned memory may still run on return if non_blocking is set.
COGRAD_API Tensor to_device(const Tensor& x, Device d, bool non_blocking);

// Starts a copy from a device to `out` if that is pinned memory without gaps; kernels of the device
// broadcast and convert before. Otherwise does nothing and returns false.
COGRAD_API bool start_copy_to(const Tensor& out, const Tensor& x);

}  // namespace cograd
