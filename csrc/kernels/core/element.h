// SPDX-License-Identifier: BSD-3-Clause
// Another thread may write an index tensor while a kernel runs. So an index that was checked before
// is loaded once where it is used, and that value is checked again before it becomes an address.
#pragma once
#include <cstdint>

namespace cograd::kernels {

// Volatile: the compiler must not read the memory twice. A relaxed atomic load would express the
// same, but GCC treats it as a write to all memory, which made take() 1.8 times slower.
template <class T>
T load_index(const T* p) {
  return *static_cast<const volatile T*>(p);
}
inline int64_t load_index(const char* p) { return load_index(reinterpret_cast<const int64_t*>(p)); }

// True if 0 <= i < n.
inline bool within(int64_t i, int64_t n) {
  return static_cast<uint64_t>(i) < static_cast<uint64_t>(n);
}

}  // namespace cograd::kernels
