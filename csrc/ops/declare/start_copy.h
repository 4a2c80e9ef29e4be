// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "ops/declare/device_stage.h"

namespace cograd {

// Like to_device, but a copy from pinned memory may still run on return if non_blocking is set.
COGRAD_API Tensor to_device(const Tensor& x, Device d, bool non_blocking);

}  // namespace cograd
