// SPDX-License-Identifier: BSD-3-Clause
// Starting threads when memory is short: the C library ends the process when a thread reads a
// thread-local variable for the first time and there is no memory for it.
#pragma once
#include <atomic>
#include <cstdlib>
#include <exception>
#include <thread>

namespace cograd {

// Starts a detached thread that runs `body`, and waits until it has what it needs at its start.
// False, and no thread, if there is no memory for it.
template <class F>
bool start_thread(F body) {
  constexpr size_t kRoom = size_t{1} << 18;
  void* room = std::malloc(kRoom);
  if (room == nullptr) return false;
  std::free(room);
  std::atomic<bool> ready{false};
  try {
    std::thread([&ready, body] {
      const auto run = body;             // `ready` is gone once it is set
      (void)std::uncaught_exceptions();  // the run time library's variables
      ready.store(true, std::memory_order_release);
      run();
    }).detach();
  } catch (const std::exception&) {
    return false;
  }
  while (!ready.load(std::memory_order_acquire)) std::this_thread::yield();
  return true;
}

}  // namespace cograd
