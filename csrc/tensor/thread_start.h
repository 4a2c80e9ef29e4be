// SPDX-License-Identifier: BSD-3-Clause
// Starts threads when memory may be short.
#pragma once
#include <atomic>
#include <exception>
#include <thread>

#include "tensor/thread_locals.h"

namespace cograd {

// Starts a detached thread that runs `body`, and waits until the thread has its thread-local
// variables. Returns false, without a thread, if there is no memory for it.
template <class F>
bool start_thread(F body) {
  enum : int { kStarting, kReady, kFailed };
  std::atomic<int> state{kStarting};
  try {
    std::thread([&state, body] {
      const auto run = body;  // copied: `state` and `body` may be gone once `state` is set
      const bool ready = take_thread_locals();
      state.store(ready ? kReady : kFailed, std::memory_order_release);
      if (ready) run();
    }).detach();
  } catch (const std::exception&) {
    return false;
  }
  while (state.load(std::memory_order_acquire) == kStarting) std::this_thread::yield();
  return state.load(std::memory_order_relaxed) == kReady;
}

}  // namespace cograd
