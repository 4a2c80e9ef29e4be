// SPDX-License-Identifier: BSD-3-Clause
// The process's single handler of warnings.
#include "tensor/warn.h"

#include <atomic>

namespace cograd {

namespace {
std::atomic<WarnHandler> current{nullptr};
}

void set_warn_handler(WarnHandler handler) noexcept { current = handler; }

void warn(const std::string& text) {
  if (const WarnHandler handler = current) handler(text);
}

}  // namespace cograd
