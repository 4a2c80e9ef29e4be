// SPDX-License-Identifier: BSD-3-Clause
// Counts the nodes of all threads. Each thread counts its own without a lock; the counts of threads
// that have ended, or that a fork left behind, are kept as one number.
#include <atomic>

#include "autograd/graph/node.h"
#include "tensor/thread_list.h"

namespace cograd {

namespace {

constinit int64_t ended = 0;  // changed under the lock of the list

struct Counter {
  int64_t* number = nullptr;
  int64_t read() const noexcept { return std::atomic_ref(*number).load(std::memory_order_relaxed); }
  void start() noexcept { number = &thread_state.live_nodes; }
  void end() noexcept { ended += read(); }
};

const ThreadList<Counter> counters;

}  // namespace

int64_t live_nodes() noexcept {
  const ThreadList<Counter>::All all;
  int64_t sum = ended;
  for (const Counter& c : all) sum += c.read();
  return sum;
}

}  // namespace cograd
