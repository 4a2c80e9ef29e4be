// SPDX-License-Identifier: BSD-3-Clause
// Byte counts of storages, with overflow checks.
#include "tensor/checked.h"

#include <algorithm>

#include "tensor/dims.h"
#include "tensor/interrupt.h"

namespace cograd {

std::atomic<void (*)()> interrupt_hook{nullptr};

void fail_numel() { detail::fail(ErrorKind::Runtime, "numel: integer multiplication overflow"); }

void fail_storage_size(IntList sizes, IntList strides) {
  detail::fail(ErrorKind::Runtime,
               "Storage size calculation overflowed with sizes=", to_string(sizes),
               strides.empty() ? std::string() : " and strides=" + to_string(strides));
}

int64_t storage_extent(IntList sizes, IntList strides, int64_t offset) {
  int64_t end = 0;
  bool bad = __builtin_add_overflow(offset, 1, &end);
  bool none = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    none |= sizes[i] == 0;
    bad |= sizes[i] > 1 && (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
                            __builtin_add_overflow(end, reach, &end));
  }
  if (none) return 0;
  if (bad) fail_storage_size(sizes, strides);
  return end;
}

int64_t storage_bytes(IntList sizes, int64_t itemsize) {
  int64_t bytes = itemsize;
  int64_t stride = 1;
  bool bad = false;
  bool bad_strides = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t s = sizes[i];
    COGRAD_CHECK(s >= 0, "Trying to create tensor with negative dimension ", s, ": ",
                 to_string(sizes));
    bad |= __builtin_mul_overflow(bytes, s, &bytes);
    bad_strides |= i > 0 && __builtin_mul_overflow(stride, std::max<int64_t>(s, 1), &stride);
  }
  if (bad) fail_storage_size(sizes);
  COGRAD_CHECK(!bad_strides, "Stride calculation overflowed with sizes=", to_string(sizes));
  return bytes;
}

}  // namespace cograd
