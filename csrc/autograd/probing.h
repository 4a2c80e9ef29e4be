// SPDX-License-Identifier: BSD-3-Clause
// What a backward may ask about why it is called.
#pragma once
#include "cograd/error.h"

namespace cograd {

// Whether a backward runs on this thread for its own derivative: its gradients are ones then.
COGRAD_API bool probing_backward() noexcept;

}  // namespace cograd
