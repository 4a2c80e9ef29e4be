// SPDX-License-Identifier: BSD-3-Clause
// Makes the arguments of a row's kernels from those of the CPU's loop. Needs no GPU: a test runs
// the same text on the CPU with these arguments.
#pragma once
#include <functional>

#include "cuda/args/loop_args.h"
#include "cuda/jit/rows.h"
#include "cuda/slots/nest.h"

namespace cograd::cuda {

struct LoopLaunch {
  Driver driver;
  unsigned blocks;
  const void* args;
};
inline constexpr unsigned kLoopThreads = 256;

// Returns the row that computes a loop of pow with the exponent in `params`; else `row`.
int chosen_row(int row, const void* params) noexcept;
// Size in bytes of operand k of a row.
int operand_size(const LoopRow& row, int k) noexcept;

// Calls `launch` with the arguments of each kernel that a loop needs: one, but for more than eight
// dims. `host` has a bit for each operand that is one element in host memory. If `error` is not
// null, kernels write 1 there for a zero divisor. Throws NoKernel for what they do not cover.
void each_launch(const LoopRow& row, const Nest& nest, unsigned host, const void* params,
                 unsigned* error, const std::function<void(const LoopLaunch&)>& launch);

// True if operand k, which is on the host, is zero.
bool is_zero_on_host(const LoopRow& row, const Nest& nest, int k) noexcept;

}  // namespace cograd::cuda
