// SPDX-License-Identifier: BSD-3-Clause
// Order-preserving integer keys of every dtype, and a stable radix sort of (key, position).
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

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

inline constexpr int64_t kShortRow = 128;  // shorter rows are sorted by comparisons

// Returns byte d of the key, which is in the last bytes of an entry of 8 bytes.
template <class E>
uint8_t digit_of(const E& e, int d) {
  static_assert(std::endian::native == std::endian::little);
  constexpr int kFirst = sizeof(E) == 8 ? 4 : 0;
  uint8_t digit;
  std::memcpy(&digit, reinterpret_cast<const char*>(&e) + kFirst + d, 1);
  return digit;
}

// Sorts by the given digits of the keys, at most four, the lowest first. Returns the array that
// holds the result.
template <class E>
E* radix_passes(E* entries, E* other, int64_t n, const int* digits, int passes) {
  uint32_t counts[4][256] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int p = 0; p < passes; ++p) ++counts[p][digit_of(entries[i], digits[p])];
  for (int p = 0; p < passes; ++p) {
    if (counts[p][digit_of(entries[0], digits[p])] == static_cast<uint32_t>(n)) continue;
    uint32_t at = 0;
    for (uint32_t& count : counts[p]) at += std::exchange(count, at);
    for (int64_t i = 0; i < n; ++i)
      other[counts[p][digit_of(entries[i], digits[p])]++] = entries[i];
    std::swap(entries, other);
  }
  return entries;
}

// Sorts each run of entries with the same key above bit `shift` by the lower digits.
template <class E>
void sort_runs(E* entries, E* other, int64_t n, int shift, const int* digits, int passes) {
  for (int64_t first = 0, last; first < n; first = last) {
    for (last = first + 1; last < n; ++last)
      if ((key_of(entries[first]) ^ key_of(entries[last])) >> shift != 0) break;
    if (last - first < kShortRow) {
      if (last - first > 1) std::sort(entries + first, entries + last);
      continue;
    }
    const E* done = radix_passes(entries + first, other + first, last - first, digits, passes);
    if (done != entries + first) std::copy_n(done, last - first, entries + first);
  }
}

// Sorts n entries by key and keeps the order of equal ones; `other` is scratch of the same size.
// Returns the one of the two that holds the result. Leaves out digits that all entries share. Four
// digits order most long keys, so few entries are left for the lower ones.
template <class E>
E* radix_sort(E* entries, E* other, int64_t n) {
  if (n < kShortRow) {
    std::sort(entries, entries + n);
    return entries;
  }
  using K = decltype(key_of(E{}));
  if constexpr (sizeof(K) == 4) {
    constexpr int kAll[] = {0, 1, 2, 3};
    return radix_passes(entries, other, n, kAll, 4);
  }
  K all = static_cast<K>(~K{0}), any = 0;
  for (int64_t i = 0; i < n; ++i) {
    all &= key_of(entries[i]);
    any |= key_of(entries[i]);
  }
  int digits[sizeof(K)], used = 0;
  for (int d = 0; d < static_cast<int>(sizeof(K)); ++d)
    if (((all ^ any) >> (8 * d) & 0xFF) != 0) digits[used++] = d;
  const int low = std::max(0, used - 4);
  E* const done = radix_passes(entries, other, n, digits + low, used - low);
  if (low > 0) sort_runs(done, done == entries ? other : entries, n, 8 * digits[low], digits, low);
  return done;
}

}  // namespace cograd::kernels
