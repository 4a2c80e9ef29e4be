// SPDX-License-Identifier: BSD-3-Clause
// The start of a thread, and the memory that is kept for it.
#include "tensor/thread_locals.h"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <optional>

#include "tensor/alloc.h"

namespace cograd {

constinit COGRAD_API thread_local bool thread_can_throw = false;

namespace {

// The size of the run-time library's thread-local variables for exceptions, and a size that leaves
// enough for them if other threads allocate at the same time.
constexpr size_t kLeast = 64;
constexpr size_t kVariables = size_t{64} << 10;
// If the heap cannot grow, malloc maps at least 1 MiB. Nothing touches these blocks, so they take
// address space, and memory only where the system promises no more than it has.
constexpr size_t kBlock = size_t{5} << 18;
constexpr int kBlocks = 4;
constinit std::atomic<void*> blocks[kBlocks];
constinit std::atomic<OnEachThread*> first{nullptr};

void keep_blocks() noexcept {
  for (auto& place : blocks) {
    if (place.load(std::memory_order_relaxed) != nullptr) continue;
    void* block = mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return;
    void* none = nullptr;
    if (!place.compare_exchange_strong(none, block)) munmap(block, kBlock);
  }
}

bool give_up_block() noexcept {
  for (auto& place : blocks)
    if (void* block = place.exchange(nullptr); block != nullptr) return munmap(block, kBlock) == 0;
  return false;
}

// Returns the key whose destructor the C library calls at a thread's end. The first 32 keys of a
// process need no memory on a thread, as opposed to destructors of thread_local variables.
std::optional<pthread_key_t> end_key() noexcept {
  static const std::optional<pthread_key_t> key = [] {
    pthread_key_t made;
    const auto end = [](void*) { OnEachThread::end_all(); };
    return pthread_key_create(&made, end) == 0 ? std::optional(made) : std::nullopt;
  }();
  return key;
}

}  // namespace

OnEachThread::OnEachThread(void (*start)() noexcept, void (*end)() noexcept) noexcept
    : start_(start), end_(end), next_(first.load()) {
  first.store(this);  // libraries are loaded one at a time
  if (thread_can_throw && start != nullptr) start();
}
void OnEachThread::start_all() noexcept {
  for (const OnEachThread* each = first.load(); each != nullptr; each = each->next_)
    if (each->start_ != nullptr) each->start_();
}
void OnEachThread::end_all() noexcept {
  for (const OnEachThread* each = first.load(); each != nullptr; each = each->next_)
    if (each->end_ != nullptr) each->end_();
  free_lists();  // last: what the others free goes there
}

SpareMemory::SpareMemory(size_t bytes) noexcept : found_(has_memory(bytes)) {
  while (!found_ && give_up_block()) found_ = has_memory(bytes);
}
SpareMemory::~SpareMemory() { keep_blocks(); }

bool take_thread_locals_slow() noexcept {
  const SpareMemory memory(kVariables);
  if (!memory.found() && !has_memory(kLeast)) return false;
  // The function is declared pure, so the compiler drops a call whose result is unused.
  [[maybe_unused]] const volatile int touched = std::uncaught_exceptions();
  if (const auto key = end_key(); key && pthread_setspecific(*key, &thread_can_throw) == 0) {
    keep_lists();
    OnEachThread::start_all();
  }
  thread_can_throw = true;
  return true;
}

bool has_memory(size_t bytes) noexcept {
  void* volatile block = std::malloc(bytes);  // volatile: else a compiler may drop both calls
  std::free(block);
  return block != nullptr;
}

namespace {
[[maybe_unused]] const bool loaded = take_thread_locals();
}  // namespace

}  // namespace cograd
