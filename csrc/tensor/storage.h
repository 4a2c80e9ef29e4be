// SPDX-License-Identifier: BSD-3-Clause
// Storage: the bytes of tensors, their owner, and the version that all views of them share.
#pragma once
#include <atomic>
#include <cstdint>

#include "tensor/alloc.h"
#include "tensor/device.h"

namespace cograd {

// Counts in-place writes. It is atomic because views in several threads may bump one counter.
struct VersionCounter {
  std::atomic<uint32_t> refs{1};
  std::atomic<uint32_t> value{0};
  // Added to the number that saved tensors compare: encodes how the geometry that `x.data = y` gave
  // to x differs from x's first one. 0 if both are the same.
  uint32_t geometry = 0;
};
// The part of VersionCounter::geometry that says that a contiguous tensor became non-contiguous.
inline constexpr uint32_t kNotContiguous = 0x7C3A9605;

// Advances whenever a function begins to run under a transform. A storage that was created at an
// earlier time (Storage::born) was captured by the function.
extern constinit COGRAD_API std::atomic<uint32_t> capture_clock;

struct Storage {
  std::atomic<uint32_t> refs{1};
  std::atomic<uint32_t> version{0};
  void* data = nullptr;
  int64_t nbytes = 0;
  void (*deleter)(void*) = nullptr;  // frees foreign memory; called with context
  void* context = nullptr;
  // 0: own data block, 1: bytes follow this object, 2: foreign, 3: a part of another storage,
  // 4: on a device
  uint8_t kind = 0;
  bool read_only = false;
  bool emptied = false;  // resized to 0: the address range is kept, the contents are discarded
  uint32_t born = capture_clock.load(std::memory_order_relaxed);

  static constexpr int64_t kInlineMax = 256;

  // Returns memory on the device of this thread's place.
  static Storage* make(int64_t nbytes) {
    if (!on_host()) [[unlikely]]
      return make_elsewhere(nbytes);
    if (nbytes <= kInlineMax) {
      auto* s = new (small_alloc(sizeof(Storage) + static_cast<size_t>(nbytes))) Storage;
      s->data = s + 1;
      s->nbytes = nbytes;
      s->kind = 1;
      return s;
    }
    return make_large(nbytes);
  }
  COGRAD_API static Storage* make_large(int64_t nbytes);
  COGRAD_API static Storage* make_elsewhere(int64_t nbytes);
  COGRAD_API static Storage* wrap(void* data, int64_t nbytes, void (*deleter)(void*), void* context,
                                  bool read_only);

  // Returns a storage of `size` bytes at `at` inside this one, and keeps this one alive. Each part
  // has a separate version, because parts that do not overlap share nothing else.
  COGRAD_API Storage* part(void* at, int64_t size);

  void retain() noexcept { refs.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (refs.load(std::memory_order_acquire) == 1 ||
        refs.fetch_sub(1, std::memory_order_acq_rel) == 1)
      destroy();
  }
  bool unique() const noexcept { return refs.load(std::memory_order_acquire) == 1; }

 private:
  void destroy() noexcept {
    if (kind == 1) {
      small_free(this, sizeof(Storage) + static_cast<size_t>(nbytes));
      return;
    }
    destroy_slow();
  }
  COGRAD_API void destroy_slow() noexcept;
};
static_assert(sizeof(Storage) % 16 == 0, "inline data must stay 16-byte aligned");

}  // namespace cograd
