// SPDX-License-Identifier: BSD-3-Clause
// Threads when memory is short: the C library ends the process when a thread reads a library's
// thread-local variable for the first time and there is no memory for it. So each thread allocates
// the variables that throwing needs before anything is thrown on it.
#pragma once
#include <cstddef>

#include "cograd/error.h"

namespace cograd {

// True once this thread has the variables that the run-time library needs to throw.
extern constinit thread_local bool thread_can_throw __attribute__((tls_model("initial-exec")));
COGRAD_API bool take_thread_locals_slow() noexcept;
// Allocates these variables on this thread. If it returns false (no memory), nothing may be thrown.
inline bool take_thread_locals() noexcept { return thread_can_throw || take_thread_locals_slow(); }
// True if malloc can currently provide `bytes`.
bool has_memory(size_t bytes) noexcept;

}  // namespace cograd
