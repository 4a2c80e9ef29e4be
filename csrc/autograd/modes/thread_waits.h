// SPDX-License-Identifier: BSD-3-Clause
// When a profiled thread did not run: it slept, read a file, waited for a lock or for a core.
#pragma once
#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace cograd {

// The thread did not run for waited_ns of the time from begin_ns to end_ns.
struct ThreadWait {
  uint64_t thread;  // as in ProfileEvent
  int64_t begin_ns, end_ns, waited_ns;
};
// Measures this thread from now on; the profiler's events do so for other threads.
COGRAD_API void start_thread_waits() noexcept;
// Returns what was measured since it was last called.
COGRAD_API std::vector<ThreadWait> take_thread_waits();

}  // namespace cograd
