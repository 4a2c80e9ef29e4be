// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic on sizes, strides, offsets and byte counts that raises where int64 would overflow.
#pragma once
#include <cstdint>
#include <span>

#include "cograd/error.h"

namespace cograd {

using IntList = std::span<const int64_t>;
// A type wide enough for the product of two sizes.
__extension__ typedef __int128 Wide;

// Raises RuntimeError "numel: integer multiplication overflow".
[[noreturn]] COGRAD_API void fail_numel();
// Raises RuntimeError "Storage size calculation overflowed with sizes=... and strides=...".
[[noreturn]] COGRAD_API void fail_storage_size(IntList sizes, IntList strides = {});

inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) [[unlikely]]
    fail_numel();
  return r;
}
inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) [[unlikely]]
    fail_numel();
  return r;
}
// Returns the number of elements of a shape, or of some of its dims.
inline int64_t product(IntList v) {
  int64_t n = 1;
  for (int64_t d : v) n = checked_mul(n, d);
  return n;
}
// Returns a stride times a step or an item size. The stride of a dim of size 0 or 1 is unused and
// may be anything, so an overflow there is harmless and wraps around.
inline int64_t scaled_stride(int64_t stride, int64_t by) noexcept {
  return static_cast<int64_t>(static_cast<uint64_t>(stride) * static_cast<uint64_t>(by));
}
// Returns the number of elements from the start of the storage to the end of the last element. The
// first one is at `offset`. 0 for a tensor without elements. Sizes and strides are not negative.
COGRAD_API int64_t storage_extent(IntList sizes, IntList strides, int64_t offset = 0);
// Returns the bytes of a new contiguous tensor. Raises if a size is negative or if the bytes or the
// strides overflow, even for a tensor without elements.
COGRAD_API int64_t storage_bytes(IntList sizes, int64_t itemsize);

}  // namespace cograd
