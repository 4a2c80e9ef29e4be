// SPDX-License-Identifier: BSD-3-Clause
// Processes that were forked from one another divide the processors while they compute.
#pragma once

namespace cograd {

// Returns the part of `threads` threads that this process should use: all of them if none of its
// relatives has run a loop in the last 100 ms. Must not run on two threads at once.
int share_of_relatives(int threads) noexcept;

}  // namespace cograd
