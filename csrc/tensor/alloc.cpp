// SPDX-License-Identifier: BSD-3-Clause
// Per-thread free lists and the cache of large blocks.
#include "tensor/alloc.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "tensor/memory_stats.h"
#include "tensor/thread_locals.h"

namespace cograd {

constinit COGRAD_API thread_local SmallPool small_pool;

namespace {

// Under the address sanitizer nothing is kept for reuse, so that it sees every free.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif
constexpr size_t kCacheMin = kKeeps ? size_t{1} << 16 : SIZE_MAX;
constexpr size_t kCacheCap = size_t{1} << 28;
constexpr size_t kHugePage = size_t{1} << 21;

constinit std::atomic<int64_t> live{0};

// Blocks are rounded to four sizes per power of two, so at most 25 % is unused.
size_t round_block(size_t n) {
  const size_t step = std::bit_floor(n) / 4;
  return (n + step - 1) & ~(step - 1);
}
size_t bucket_of(size_t rounded) {
  const auto log = static_cast<size_t>(std::bit_width(rounded) - 1);
  return log * 4 + ((rounded >> (log - 2)) & 3);
}

struct BlockCache {
  std::mutex mutex;
  std::vector<void*> buckets[64 * 4];
  size_t bytes = 0;

  void* take(size_t rounded) {
    std::lock_guard lock(mutex);
    auto& b = buckets[bucket_of(rounded)];
    if (b.empty()) return nullptr;
    void* p = b.back();
    b.pop_back();
    bytes -= rounded;
    return p;
  }
  bool put(void* p, size_t rounded) noexcept {
    std::lock_guard lock(mutex);
    if (bytes + rounded > kCacheCap) return false;
    try {
      buckets[bucket_of(rounded)].push_back(p);
    } catch (...) {
      return false;
    }
    bytes += rounded;
    return true;
  }
  void clear() noexcept {
    std::lock_guard lock(mutex);
    for (auto& b : buckets) {
      for (void* p : b) std::free(p);
      b.clear();
    }
    bytes = 0;
  }
};

BlockCache& cache() {
  static BlockCache* c = [] {
    auto* made = new BlockCache;  // leaked: tensors may outlive static destruction
    pthread_atfork([] { cache().mutex.lock(); }, [] { cache().mutex.unlock(); },
                   [] { new (&cache().mutex) std::mutex; });
    return made;
  }();
  return *c;
}

void* system_alloc(size_t n) {
  void* p = nullptr;
  const size_t align = n >= 2 * kHugePage ? kHugePage : 64;
  if (posix_memalign(&p, align, n) != 0) return nullptr;
  if (align == kHugePage) madvise(p, n, MADV_HUGEPAGE);
  return p;
}

}  // namespace

void keep_lists() noexcept { small_pool.registered = kKeeps; }

void free_lists() noexcept {
  small_pool.registered = false;
  for (auto& k : small_pool.classes) {
    while (k.head != nullptr) std::free(std::exchange(k.head, *static_cast<void**>(k.head)));
    k.count = 0;
  }
}

void* small_alloc_slow(size_t size_class) {
  (void)take_thread_locals();
  void* p = std::malloc((size_class + 1) * kSmallStep);
  COGRAD_CHECK_KIND(Memory, p != nullptr, "out of memory: could not allocate ",
                    (size_class + 1) * kSmallStep, " bytes");
  return p;
}

void small_free_slow(void* p) noexcept {
  (void)take_thread_locals();
  std::free(p);
}

void* data_alloc(size_t nbytes) {
  void* p = nullptr;
  if (nbytes < kCacheMin) {
    p = system_alloc(nbytes == 0 ? 1 : nbytes);
  } else if (nbytes <= kCacheCap) {
    const size_t rounded = round_block(nbytes);
    p = cache().take(rounded);
    if (p == nullptr) p = system_alloc(rounded);
    if (p == nullptr) {
      cache().clear();
      p = system_alloc(rounded);
    }
  } else {
    p = system_alloc(nbytes);
  }
  COGRAD_CHECK_KIND(Memory, p != nullptr, "out of memory: could not allocate ", nbytes, " bytes");
  live.fetch_add(static_cast<int64_t>(nbytes), std::memory_order_relaxed);
  return p;
}

void data_free(void* p, size_t nbytes) noexcept {
  live.fetch_sub(static_cast<int64_t>(nbytes), std::memory_order_relaxed);
  if (nbytes >= kCacheMin && nbytes <= kCacheCap && cache().put(p, round_block(nbytes))) return;
  std::free(p);
}

void data_discard(void* p, size_t nbytes) noexcept {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto from = (reinterpret_cast<uintptr_t>(p) + page - 1) / page * page;
  const auto to = (reinterpret_cast<uintptr_t>(p) + nbytes) / page * page;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

size_t cached_bytes() noexcept {
  std::lock_guard lock(cache().mutex);
  return cache().bytes;
}
void release_cached_memory() noexcept { cache().clear(); }

int64_t live_bytes() noexcept { return live.load(std::memory_order_relaxed); }

}  // namespace cograd
