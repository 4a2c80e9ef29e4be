// SPDX-License-Identifier: BSD-3-Clause
// Devices as the C interface numbers them.
#pragma once
#include <cstdint>

#include "tensor/device.h"

namespace cograd::api {

// Added to the type of a device that extensions cannot name, such as meta.
inline constexpr int32_t kOtherDevice = 100;

// Returns the device with the number of its current GPU if the index is -1; raises if there is no
// such device.
COGRAD_API Device device_from_c(int32_t type, int64_t index, const char* who);
COGRAD_API int32_t device_type_to_c(DeviceType t) noexcept;

}  // namespace cograd::api
