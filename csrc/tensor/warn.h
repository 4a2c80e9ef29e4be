// SPDX-License-Identifier: BSD-3-Clause
// Warnings of the core: the layer above sets the handler that shows them.
#pragma once
#include <string>

#include "cograd/error.h"

namespace cograd {

// Shows a warning. May throw, as a Python warning filter does; the operation then fails.
using WarnHandler = void (*)(const std::string& text);

// Sets the handler; null, the initial value, drops warnings.
COGRAD_API void set_warn_handler(WarnHandler handler) noexcept;
COGRAD_API void warn(const std::string& text);

}  // namespace cograd
