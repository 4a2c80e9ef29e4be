// SPDX-License-Identifier: BSD-3-Clause
// Order-preserving integer keys of every dtype, and a stable radix sort of (key, position).
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Returns the key. Bool and integers sort by value; -0 equals 0; every NaN has the largest key.
template <class T>
auto sort_key(T v) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, uint8_t>) {
    return static_cast<uint32_t>(v);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<uint64_t>(v) ^ (uint64_t{1} << 63);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<uint32_t>(static_cast<int32_t>(v)) ^ (uint32_t{1} << 31);
  } else if constexpr (std::is_same_v<T, double>) {
    if (v != v) return ~uint64_t{0};
    const auto b = std::bit_cast<uint64_t>(v + 0.0);
    return b >> 63 ? ~b : b | (uint64_t{1} << 63);
  } else {
    const auto f = static_cast<float>(v);
    if (f != f) return ~uint32_t{0};
    const auto b = std::bit_cast<uint32_t>(f + 0.0f);
    return b >> 31 ? ~b : b | (uint32_t{1} << 31);
  }
}
template <class T>
using SortKey = decltype(sort_key(T{}));
// Returns the key of *p. Foreign memory may hold any byte as a bool: every byte but 0 is true.
template <class T>
SortKey<T> key_at(const T* p) {
  if constexpr (std::is_same_v<T, bool>)
    return *reinterpret_cast<const uint8_t*>(p) != 0;
  else
    return sort_key(*p);
}

// A key and its original position. 32-bit keys share a word with a 32-bit position, so that entries
// compare as one integer and no two are equal.
struct WideEntry {
  uint64_t key;
  int64_t index;
  bool operator<(const WideEntry& o) const { return key != o.key ? key < o.key : index < o.index; }
};
inline uint64_t make_entry(uint32_t key, int64_t index) {
  return uint64_t{key} << 32 | static_cast<uint32_t>(index);
}
inline WideEntry make_entry(uint64_t key, int64_t index) { return {key, index}; }
inline uint32_t key_of(uint64_t e) { return static_cast<uint32_t>(e >> 32); }
inline uint64_t key_of(const WideEntry& e) { return e.key; }
inline int64_t index_of(uint64_t e) { return static_cast<int64_t>(e & 0xFFFFFFFFu); }
inline int64_t index_of(const WideEntry& e) { return e.index; }
template <class T>
using SortEntry = std::conditional_t<sizeof(SortKey<T>) == 4, uint64_t, WideEntry>;

// Allocates a buffer without zeroing it.
template <class E>
std::unique_ptr<E[]> sort_buffer(int64_t n) {
  return std::unique_ptr<E[]>(new E[static_cast<size_t>(n)]);
}

// Sorts n entries by key and keeps the order of equal ones; `other` is scratch of the same size.
// Returns the one of the two that holds the result. A digit that all entries share only costs its
// count.
template <class E>
E* radix_sort(E* entries, E* other, int64_t n) {
  if (n < 128) {
    std::sort(entries, entries + n);
    return entries;
  }
  constexpr int kDigits = sizeof(key_of(E{}));
  uint32_t counts[kDigits][256] = {};
  for (int64_t i = 0; i < n; ++i) {
    auto key = key_of(entries[i]);
    for (int d = 0; d < kDigits; ++d) ++counts[d][(key >> (8 * d)) & 0xFF];
  }
  for (int d = 0; d < kDigits; ++d) {
    uint32_t* count = counts[d];
    const auto first = (key_of(entries[0]) >> (8 * d)) & 0xFF;
    if (count[first] == static_cast<uint32_t>(n)) continue;
    uint32_t at = 0;
    for (int i = 0; i < 256; ++i) at += std::exchange(count[i], at);
    for (int64_t i = 0; i < n; ++i) {
      other[count[(key_of(entries[i]) >> (8 * d)) & 0xFF]++] = entries[i];
    }
    std::swap(entries, other);
  }
  return entries;
}

}  // namespace cograd::kernels
