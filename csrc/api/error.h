// SPDX-License-Identifier: BSD-3-Clause
// Converts between exceptions inside the library and statuses at its C boundary.
#pragma once
#include <string_view>

#include "cograd/c_api.h"
#include "cograd/error.h"

namespace cograd::api {

// Stores the exception that is being handled as this thread's last error; returns its status.
cograd_status capture() noexcept;
// Throws for a callback's status: rethrows the exception that the callback passed on, or throws a
// new one whose message names `who`.
[[noreturn]] COGRAD_API void raise(cograd_status status, std::string_view who);
// Drops an exception that a callback swallowed.
COGRAD_API void forget() noexcept;

// Runs f, which may throw, and returns a status instead of the exception.
template <class F>
cograd_status guarded(F&& f) noexcept {
  try {
    f();
    return COGRAD_OK;
  } catch (...) {
    return capture();
  }
}

}  // namespace cograd::api
