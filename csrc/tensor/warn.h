// SPDX-License-Identifier: BSD-3-Clause
// Warnings of the core: text handed to whoever embeds it.
#pragma once
#include <string>

#include "cograd/error.h"

namespace cograd {

// May throw, as a Python warning filter does; the operation is then given up.
using WarnHandler = void (*)(const std::string& text);

// Null (the start): warnings are dropped.
COGRAD_API void set_warn_handler(WarnHandler handler) noexcept;
COGRAD_API void warn(const std::string& text);

}  // namespace cograd
