// SPDX-License-Identifier: BSD-3-Clause
// How many threads the process should compute with: physical cores that it may use, divided among
// the ranks of an MPI program on this machine.
#pragma once
#include <sched.h>

#include <string>

#include "cograd/error.h"

namespace cograd {

// Holds the limits of the number of threads. A limit that is 0 does not apply.
struct ProcessorLimits {
  int processors = 0;         // in the affinity mask
  int cores = 0;              // physical cores of these
  double quota = 0;           // processors that the control groups allow
  int ranks = 0;              // of this program on this machine
  const char* ranks_by = "";  // the environment variable that says so
  int shared_cores = 0;       // cores that all these ranks have together
  const char* set_by = "";    // the environment variable that sets the number
  int set = 0;

  COGRAD_API int threads() const noexcept;
};

// Reads the limits from /proc and /sys below `root` and from the environment. Allocates nothing.
COGRAD_API ProcessorLimits processor_limits(const char* root, const cpu_set_t& mask) noexcept;
// The limits of this process, read once.
COGRAD_API const ProcessorLimits& processor_limits() noexcept;
// Says how many threads the limits allow, and why.
COGRAD_API std::string describe(const ProcessorLimits& limits);
// Counts the loops that were divided among threads.
COGRAD_API int64_t parallel_loops();
// Says how many threads loops use, and why.
COGRAD_API std::string threads_reason();
// Number of processors on which threads of this process can run at once.
int usable_processors() noexcept;

}  // namespace cograd
