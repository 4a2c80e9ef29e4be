// SPDX-License-Identifier: BSD-3-Clause
// Helpers that the index kernels share: element moves by width, bounds errors, n-dimensional lines.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "cograd/dtype.h"
#include "cograd/error.h"
#include "kernels/core/element.h"
#include "kernels/index/index.h"

namespace cograd::kernels {

inline constexpr int64_t kIndexGrain = 1 << 14;  // elements per task

struct Wide {
  uint64_t half[2];
};
// Calls f with the plain type that has itemsize bytes.
template <class F>
decltype(auto) by_width(int64_t itemsize, F&& f) {
  switch (itemsize) {
    case 1:
      return f(TypeTag<uint8_t>{});
    case 2:
      return f(TypeTag<uint16_t>{});
    case 4:
      return f(TypeTag<uint32_t>{});
    case 16:
      return f(TypeTag<Wide>{});
    default:
      return f(TypeTag<uint64_t>{});
  }
}

template <class T>
T read(const char* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void write(char* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

[[noreturn]] inline void raise_bounds(ErrorKind kind, int64_t index, int64_t dim, int64_t size) {
  detail::fail(kind, "index ", index, " is out of bounds for dimension ", dim, " with size ", size);
}

// Adds with the semantics of torch's dtypes: integers wrap, bool is or.
template <class T, class A>
T add_to(T a, A b) {
  if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else if constexpr (std::is_floating_point_v<T> || is_complex_type<T>)
    return a + static_cast<T>(b);
  else
    return T(static_cast<float>(a) + static_cast<float>(b));
}

}  // namespace cograd::kernels
