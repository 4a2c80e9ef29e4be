// SPDX-License-Identifier: BSD-3-Clause
// Lets a backward query why it is called.
#pragma once
#include "cograd/error.h"

namespace cograd {

// True if a backward runs on this thread only to be differentiated (see double_vjp.h). Its incoming
// gradients are then ones.
COGRAD_API bool probing_backward() noexcept;

}  // namespace cograd
