// SPDX-License-Identifier: BSD-3-Clause
// Preloaded: lets the n-th allocation fail that is made by code between given addresses.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {
constexpr int kMost = 8;
uintptr_t from[kMost], to[kMost];
size_t spared[kMost];  // allocations of this size always succeed
std::atomic<int> ranges{0};
std::atomic<long> seen{0}, first{-1}, last{-1};
std::atomic<bool> armed{false};

bool fails(void* caller, size_t size) {
  if (!armed.load(std::memory_order_relaxed)) return false;
  const auto at = reinterpret_cast<uintptr_t>(caller);
  for (int i = 0; i < ranges; ++i) {
    if (at < from[i] || at >= to[i]) continue;
    if (size == spared[i]) return false;
    const long n = seen.fetch_add(1);
    return n >= first && n < last;
  }
  return false;
}
void* made(void* p) {
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace

extern "C" {
__attribute__((visibility("default"))) void fail_alloc_range(uintptr_t lo, uintptr_t hi,
                                                             size_t spare) {
  if (ranges == kMost) return;
  from[ranges] = lo;
  to[ranges] = hi;
  spared[ranges] = spare;
  ++ranges;
}
// Allocations [n, n + count) from now on fail; n < 0 lets all pass and counts them.
__attribute__((visibility("default"))) void fail_alloc_arm(long n, long count) {
  first = n;
  last = n < 0 ? -1 : n + count;
  seen = 0;
  armed = true;
}
__attribute__((visibility("default"))) long fail_alloc_disarm() {
  armed = false;
  return seen;
}
void* malloc(size_t n) {
  if (fails(__builtin_return_address(0), n)) return errno = ENOMEM, nullptr;
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t m) {
  if (fails(__builtin_return_address(0), n)) return errno = ENOMEM, nullptr;
  return __libc_calloc(n, m);
}
void* realloc(void* p, size_t n) {
  if (fails(__builtin_return_address(0), n)) return errno = ENOMEM, nullptr;
  return __libc_realloc(p, n);
}
int posix_memalign(void** p, size_t align, size_t n) {
  if (fails(__builtin_return_address(0), n)) return ENOMEM;
  *p = __libc_memalign(align, n);
  return *p == nullptr ? ENOMEM : 0;
}
}

void* operator new(size_t n) {
  if (fails(__builtin_return_address(0), n)) throw std::bad_alloc();
  return made(__libc_malloc(n));
}
void* operator new[](size_t n) {
  if (fails(__builtin_return_address(0), n)) throw std::bad_alloc();
  return made(__libc_malloc(n));
}
void* operator new(size_t n, const std::nothrow_t&) noexcept {
  return fails(__builtin_return_address(0), n) ? nullptr : __libc_malloc(n);
}
void* operator new[](size_t n, const std::nothrow_t&) noexcept {
  return fails(__builtin_return_address(0), n) ? nullptr : __libc_malloc(n);
}
void* operator new(size_t n, std::align_val_t a) {
  if (fails(__builtin_return_address(0), n)) throw std::bad_alloc();
  return made(__libc_memalign(static_cast<size_t>(a), n));
}
void operator delete(void* p) noexcept { __libc_free(p); }
void operator delete[](void* p) noexcept { __libc_free(p); }
void operator delete(void* p, size_t) noexcept { __libc_free(p); }
void operator delete[](void* p, size_t) noexcept { __libc_free(p); }
void operator delete(void* p, std::align_val_t) noexcept { __libc_free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { __libc_free(p); }
