// SPDX-License-Identifier: BSD-3-Clause
// Arrays that begin at a cache line, so that whole vectors in them do not cross lines.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace cograd::kernels {

inline constexpr std::align_val_t kCacheLine{64};

struct FreeAligned {
  void operator()(void* p) const noexcept { ::operator delete[](p, kCacheLine); }
};
template <class T>
using AlignedArray = std::unique_ptr<T[], FreeAligned>;

// Does not initialise the elements.
template <class T>
AlignedArray<T> aligned_array(int64_t n) {
  const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(T);
  return AlignedArray<T>(static_cast<T*>(::operator new[](bytes, kCacheLine)));
}

}  // namespace cograd::kernels
