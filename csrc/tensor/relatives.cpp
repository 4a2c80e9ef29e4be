// SPDX-License-Identifier: BSD-3-Clause
#include "tensor/relatives.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>

namespace cograd {
namespace {

constexpr int kSlots = 512;
constexpr int64_t kRefresh = 10;  // ms between two looks at the others
constexpr int64_t kActive = 100;  // a process counts so many ms after a loop
constexpr int64_t kStale = 10'000;

// Shared by all relatives: when each of them last ran a loop, in ms. A process that was killed
// simply grows old.
struct Page {
  std::atomic<int64_t> last[kSlots];
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

Page* page = nullptr;  // exists from the first fork on
int slot = -1;
int64_t written = 0;  // what this process wrote to its slot
int active = 1;

void before_fork() {
  if (page != nullptr) return;
  void* p = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p != MAP_FAILED) page = new (p) Page{};
}
void after_fork_in_child() {
  slot = -1;
  active = 1;
  written = 0;
}
[[maybe_unused]] const int registered = pthread_atfork(before_fork, nullptr, after_fork_in_child);

int64_t now_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 + 1;
}

bool take_slot(int64_t now) noexcept {
  for (slot = 0; slot < kSlots; ++slot) {
    int64_t last = page->last[slot].load(std::memory_order_relaxed);
    if ((last == 0 || now - last > kStale) && page->last[slot].compare_exchange_strong(last, now))
      return true;
  }
  slot = -1;
  return false;
}

}  // namespace

int share_of_relatives(int threads) noexcept {
  if (page == nullptr) [[likely]]
    return threads;
  const int64_t now = now_ms();
  if (now - written >= kRefresh) {
    // Somebody else may have taken the slot of a process that ran no loop for a long time.
    if (slot < 0 || !page->last[slot].compare_exchange_strong(written, now)) take_slot(now);
    written = now;
    active = static_cast<int>(
        std::count_if(page->last, page->last + kSlots, [now](const std::atomic<int64_t>& last) {
          return now - last.load(std::memory_order_relaxed) <= kActive;
        }));
  }
  return std::max(1, threads / std::max(active, 1));
}

}  // namespace cograd
