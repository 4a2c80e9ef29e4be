// SPDX-License-Identifier: BSD-3-Clause
// Another thread may write an index tensor while a kernel runs: an index that was checked before is
// loaded once where it is used, and that value is looked at again before it makes an address.
#pragma once
#include <cstdint>

namespace cograd::kernels {

// Volatile: the compiler must not read the memory a second time. A relaxed atomic load would say
// the same, but GCC takes one for a write to all memory, and take() came out 1.8 times slower.
template <class T>
T load_index(const T* p) {
  return *static_cast<const volatile T*>(p);
}
inline int64_t load_index(const char* p) { return load_index(reinterpret_cast<const int64_t*>(p)); }

// 0 <= i < n.
inline bool within(int64_t i, int64_t n) {
  return static_cast<uint64_t>(i) < static_cast<uint64_t>(n);
}

}  // namespace cograd::kernels
