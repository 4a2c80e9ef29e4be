// SPDX-License-Identifier: BSD-3-Clause
// Memory: per-thread free lists for small objects, a capped cache of large blocks for tensor data.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cograd/error.h"

namespace cograd {

inline constexpr size_t kSmallStep = 32;
inline constexpr size_t kSmallClasses = 16;
inline constexpr size_t kSmallMax = kSmallStep * kSmallClasses;
inline constexpr uint32_t kSmallKeep = 256;  // objects kept per class and thread

struct SmallPool {
  struct Class {
    void* head = nullptr;
    uint32_t count = 0;
  };
  Class classes[kSmallClasses];
  bool registered = false;
};
extern constinit thread_local SmallPool small_pool __attribute__((tls_model("initial-exec")));

// Makes this thread keep freed objects.
void keep_lists() noexcept;
// Returns a finished thread's objects to malloc.
void free_lists() noexcept;
COGRAD_API void* small_alloc_slow(size_t size_class);
COGRAD_API void small_free_slow(void* p) noexcept;

// Allocates an object of at most kSmallMax bytes. small_free() must get the same n.
inline void* small_alloc(size_t n) {
  const size_t c = (n - 1) / kSmallStep;
  SmallPool::Class& k = small_pool.classes[c];
  if (k.head != nullptr) [[likely]] {
    void* p = k.head;
    k.head = *static_cast<void**>(p);
    --k.count;
    return p;
  }
  return small_alloc_slow(c);
}
inline void small_free(void* p, size_t n) noexcept {
  SmallPool::Class& k = small_pool.classes[(n - 1) / kSmallStep];
  if (k.count < kSmallKeep && small_pool.registered) [[likely]] {
    *static_cast<void**>(p) = k.head;
    k.head = p;
    ++k.count;
    return;
  }
  small_free_slow(p);
}

// Allocates tensor data, 64-byte aligned; throws Error(Memory). data_free() must get the same size.
COGRAD_API void* data_alloc(size_t nbytes);
void data_free(void* p, size_t nbytes) noexcept;
// Returns the pages that lie entirely in a block to the system; they read as zeros from then on.
COGRAD_API void data_discard(void* p, size_t nbytes) noexcept;
// Returns the number of bytes in the cache of large blocks.
COGRAD_API size_t cached_bytes() noexcept;
// Returns the cached blocks to the system.
COGRAD_API void release_cached_memory() noexcept;

}  // namespace cograd
