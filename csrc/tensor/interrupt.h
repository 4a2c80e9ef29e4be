// SPDX-License-Identifier: BSD-3-Clause
// Long loops outside the kernels ask now and then whether the user wants them to end (Ctrl-C).
#pragma once
#include <atomic>
#include <cstdint>

#include "cograd/error.h"

namespace cograd {

// Set by the layer that knows of signals; throws to end the loop.
COGRAD_API extern std::atomic<void (*)()> interrupt_hook;

class InterruptCheck {
 public:
  // To be called in each round with the number of elements it deals with.
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
