// SPDX-License-Identifier: BSD-3-Clause
// Allocation of the thread-local variables that throwing needs, before anything is thrown.
#include "tensor/thread_locals.h"

#include <atomic>
#include <cstdlib>
#include <exception>

namespace cograd {

constinit COGRAD_API thread_local bool thread_can_throw = false;

namespace {

// Size of the run-time library's thread-local variables for exceptions.
constexpr size_t kVariables = 32;
// Number of spare blocks for threads that find no memory. malloc hands a block that was just freed
// to the next request of its size on the same thread, if that thread has a cache of blocks.
constexpr int kSpares = 64;
constinit std::atomic<void*> spares[kSpares];
constinit std::atomic<int> spares_left{0};

bool fill_spares() noexcept {
  for (auto& block : spares) block.store(std::malloc(kVariables));
  spares_left.store(kSpares);
  return true;
}

// A thread that found no memory for its cache frees a spare block to all threads, and may not get
// it back.
bool find_variables() noexcept {
  if (has_memory(kVariables)) return true;
  const int left = spares_left.fetch_sub(1);
  if (left <= 0) return false;
  std::free(spares[left - 1].exchange(nullptr));
  return has_memory(kVariables);
}

}  // namespace

bool take_thread_locals_slow() noexcept {
  if (!find_variables()) return false;
  // The function is declared pure, so the compiler drops a call whose result is unused.
  [[maybe_unused]] const volatile int touched = std::uncaught_exceptions();
  thread_can_throw = true;
  return true;
}

bool has_memory(size_t bytes) noexcept {
  void* volatile block = std::malloc(bytes);  // volatile: else a compiler may drop both calls
  std::free(block);
  return block != nullptr;
}

namespace {
[[maybe_unused]] const bool loaded = fill_spares() && take_thread_locals();
}  // namespace

}  // namespace cograd
