// SPDX-License-Identifier: BSD-3-Clause
// Threads when memory is short: the C library ends the process when a thread reads a library's
// thread-local variable for the first time and there is no memory for it. So each thread takes what
// throwing needs before anything is thrown on it.
#pragma once
#include <cstddef>

#include "cograd/error.h"

namespace cograd {

// Whether this thread has what the run-time library needs to throw.
extern constinit thread_local bool thread_can_throw __attribute__((tls_model("initial-exec")));
COGRAD_API bool take_thread_locals_slow() noexcept;
// False if there is no memory for it: nothing may be thrown then.
inline bool take_thread_locals() noexcept { return thread_can_throw || take_thread_locals_slow(); }
bool has_memory(size_t bytes) noexcept;

}  // namespace cograd
