// SPDX-License-Identifier: BSD-3-Clause
// Inner loops of the index kernels; compiled once per instruction set.
#include "kernels/index_loops.h"

#include <cstring>

namespace cograd::kernels::COGRAD_ISA {

IndexLoops index_loops();

namespace {

constexpr int64_t kVector = 64;     // bytes of a widest move
constexpr int64_t kAhead = 8;       // rows looked up before they are copied
constexpr int64_t kLongRow = 8192;  // the library's copy is as good for longer rows

template <class T>
void add(T* to, const T* from, int64_t n, T alpha) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] += alpha * from[i];
}

// The sign bit of either term tells an index that is too small or too large.
bool in_range(const char* index, int64_t stride, int64_t n, int64_t low, int64_t size) {
  uint64_t signs = 0;
  const auto base = static_cast<uint64_t>(low), top = static_cast<uint64_t>(size - 1);
  if (stride == sizeof(int64_t)) {
    const auto* at = reinterpret_cast<const uint64_t*>(index);
    for (int64_t i = 0; i < n; ++i) signs |= (at[i] - base) | (top - at[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      uint64_t v;
      std::memcpy(&v, index + i * stride, sizeof v);
      signs |= (v - base) | (top - v);
    }
  }
  return signs >> 63 == 0;
}

template <int64_t kBytes>
void copy_fixed(char* to, const char* from, const int64_t* index, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * kBytes, from + index[i] * kBytes, kBytes);
}

// Moves of kStep bytes; the last one overlaps the one before.
template <int64_t kStep>
void copy_row(char* to, const char* from, int64_t bytes) {
  int64_t i = 0;
  for (; i + kStep <= bytes; i += kStep) std::memcpy(to + i, from + i, kStep);
  if (i < bytes) std::memcpy(to + bytes - kStep, from + bytes - kStep, kStep);
}

template <int64_t kStep>
void copy_any(char* to, const char* from, const int64_t* index, int64_t n, int64_t bytes) {
  for (int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n) {
      const char* next = from + index[i + kAhead] * bytes;
      __builtin_prefetch(next);
      __builtin_prefetch(next + bytes - 1);
    }
    copy_row<kStep>(to + i * bytes, from + index[i] * bytes, bytes);
  }
}

void copy_rows(char* to, const char* from, const int64_t* index, int64_t n, int64_t bytes) {
  switch (bytes) {
    case 1:
      return copy_fixed<1>(to, from, index, n);
    case 2:
      return copy_fixed<2>(to, from, index, n);
    case 4:
      return copy_fixed<4>(to, from, index, n);
    case 8:
      return copy_fixed<8>(to, from, index, n);
    case 16:
      return copy_fixed<16>(to, from, index, n);
    case 32:
      return copy_fixed<32>(to, from, index, n);
    default:
      break;
  }
  if (bytes < 16 || bytes > kLongRow) {
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(to + i * bytes, from + index[i] * bytes, static_cast<size_t>(bytes));
    return;
  }
  return bytes < kVector ? copy_any<16>(to, from, index, n, bytes)
                         : copy_any<kVector>(to, from, index, n, bytes);
}

}  // namespace

IndexLoops index_loops() { return {add<float>, add<double>, in_range, copy_rows}; }

}  // namespace cograd::kernels::COGRAD_ISA
