// SPDX-License-Identifier: BSD-3-Clause
// Integers that sort as the elements do, in the lowest bits of a key, as many as an element has:
// -0 equals 0, and every NaN has the largest key (kernels/index/sort_key.h).
#pragma once
#include "prelude.h"

namespace cograd::device {

template <class T>
using SortKey = select_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
inline constexpr bool has_nan = is_float<compute_t<T>>;
template <class T>
inline constexpr SortKey<T> all_bits = ~SortKey<T>(0) >> (8 * (sizeof(SortKey<T>) - sizeof(T)));

template <class T>
inline SortKey<T> key_of_bits(SortKey<T> b) {
  constexpr SortKey<T> kTop = SortKey<T>(1) << (8 * sizeof(T) - 1);
  if (b == kTop) b = 0;
  return b & kTop ? ~b & all_bits<T> : b | kTop;
}
template <class T>
inline SortKey<T> key_at(const T* p) {
  if constexpr (is_same<T, bool>) {
    return load(p);
  } else if constexpr (is_same<T, uint8_t>) {
    return *p;
  } else if constexpr (has_nan<T>) {
    const compute_t<T> v = load(p);
    if (v != v) return all_bits<T>;
    if constexpr (sizeof(T) == 2)
      return key_of_bits<T>(p->bits);
    else
      return key_of_bits<T>(bits_of(v));
  } else {
    return (static_cast<SortKey<T>>(*p) ^ SortKey<T>(1) << (8 * sizeof(T) - 1)) & all_bits<T>;
  }
}

}  // namespace cograd::device
