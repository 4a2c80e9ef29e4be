// SPDX-License-Identifier: BSD-3-Clause
// Lets long loops outside the kernels check now and then whether the user interrupts them (Ctrl-C).
#pragma once
#include <atomic>
#include <cstdint>

#include "cograd/error.h"

namespace cograd {

// Set by the layer that handles signals; throws to end the loop.
COGRAD_API extern std::atomic<void (*)()> interrupt_hook;

class InterruptCheck {
 public:
  // Call this in each iteration with the number of elements that it processed.
  void after(int64_t work) {
    left_ -= work;
    if (left_ > 0) [[likely]]
      return;
    left_ = kEvery;
    if (const auto hook = interrupt_hook.load(std::memory_order_relaxed)) hook();
  }

 private:
  static constexpr int64_t kEvery = 1 << 16;
  int64_t left_ = kEvery;
};

}  // namespace cograd
