// SPDX-License-Identifier: BSD-3-Clause
// Between exceptions inside the library and statuses at its C boundary.
#pragma once
#include <string_view>

#include "cograd/c_api.h"
#include "cograd/error.h"

namespace cograd::api {

// Keeps the exception being handled as this thread's last error; returns its status.
cograd_status capture() noexcept;
// Throws what a callback's status stands for: the very exception it passed on, or a new one whose
// message names `who`.
[[noreturn]] COGRAD_API void raise(cograd_status status, std::string_view who);
// Drops an exception that a callback swallowed.
COGRAD_API void forget() noexcept;

// Runs f, which may throw, behind the C boundary.
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
