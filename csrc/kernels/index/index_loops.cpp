// SPDX-License-Identifier: BSD-3-Clause
// Inner loops of the index kernels; compiled once per instruction set.
#include "kernels/index/index_loops.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/core/element.h"

namespace cograd::kernels::COGRAD_ISA {

IndexLoops index_loops();

namespace {

constexpr int64_t kVector = 64;     // bytes of the widest move
constexpr int64_t kAhead = 8;       // number of rows prefetched before they are copied
constexpr int64_t kLongRow = 8192;  // for longer rows (in bytes) the library's copy is as fast

template <class T>
void add(T* to, const T* from, int64_t n, T alpha) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] += alpha * from[i];
}

#if defined(__AVX512F__)
constexpr int64_t kRegister = 64;
#elif defined(__AVX2__)
constexpr int64_t kRegister = 32;
#else
constexpr int64_t kRegister = 16;
#endif

// Prefetches kVectors vectors of the row that a loop at index k reaches next but a few.
template <int kVectors, class T>
inline __attribute__((always_inline)) void fetch_ahead(const BagRows<T>& rows, int64_t k) {
  if (k + kAhead >= rows.known) return;
  const auto next = reinterpret_cast<uintptr_t>(rows.table) +
                    static_cast<uint64_t>(rows.index[k + kAhead] * rows.width) * sizeof(T);
#pragma GCC unroll 8
  for (int i = 0; i < kVectors * kRegister; i += 64)
    __builtin_prefetch(reinterpret_cast<const char*>(next) + i);
}

// Sums kVectors vectors of each row in registers.
template <int kVectors, class T>
void sum_columns(const BagRows<T>& rows, T scale, T* to) {
  typedef T V __attribute__((vector_size(kRegister)));
  constexpr int64_t kLanes = kRegister / sizeof(T);
  V sum[kVectors] = {};
  for (int64_t k = 0; k < rows.n; ++k) {
    const int64_t row = rows.index[k];
    if (row == rows.padding) continue;
    const T* from = rows.table + row * rows.width;
    fetch_ahead<kVectors>(rows, k);
    const T weight = rows.weights != nullptr ? rows.weights[k] : T(1);
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) {
      V part;
      std::memcpy(&part, from + i * kLanes, sizeof part);
      sum[i] += part * weight;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; ++i) {
    const V total = sum[i] * scale;
    std::memcpy(to + i * kLanes, &total, sizeof total);
  }
}

// Keeps the largest elements of kVectors vectors of each row, and the numbers of their indices.
template <int kVectors, class T>
void largest_columns(const BagRows<T>& rows, T* to, int64_t* at) {
  using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef T V __attribute__((vector_size(kRegister)));
  typedef Place P __attribute__((vector_size(kRegister)));
  constexpr int64_t kLanes = kRegister / sizeof(T);
  V best[kVectors] = {};
  P place[kVectors] = {};
  int64_t k = 0;
  while (k < rows.n && rows.index[k] == rows.padding) ++k;
  const bool empty = k == rows.n;
  const P first = P{} + static_cast<Place>(k);
  for (int i = 0; i < kVectors && !empty; ++i) {
    std::memcpy(&best[i], rows.table + rows.index[k] * rows.width + i * kLanes, kRegister);
    place[i] = first;
  }
  for (++k; k < rows.n; ++k) {
    const int64_t row = rows.index[k];
    if (row == rows.padding) continue;
    fetch_ahead<kVectors>(rows, k);
    const P here = P{} + static_cast<Place>(k);
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) {
      V part;
      std::memcpy(&part, rows.table + row * rows.width + i * kLanes, kRegister);
      const auto above = part > best[i];
      best[i] = above ? part : best[i];
      place[i] = above ? here : place[i];
    }
  }
  std::memcpy(to, best, sizeof best);
  if (empty) return;
  for (int64_t i = 0; i < kVectors * kLanes; ++i) at[i] = rows.index[place[i / kLanes][i % kLanes]];
}

template <class T>
void largest_column(const BagRows<T>& rows, T* to, int64_t* at) {
  bool empty = true;
  *to = 0;
  for (int64_t k = 0; k < rows.n; ++k) {
    const int64_t row = rows.index[k];
    if (row == rows.padding) continue;
    const T v = rows.table[row * rows.width];
    if (!empty && !(v > *to)) continue;
    *to = v;
    *at = row;
    empty = false;
  }
}

template <class T>
void sum_column(const BagRows<T>& rows, T scale, T* to) {
  T sum = 0;
  for (int64_t k = 0; k < rows.n; ++k) {
    if (rows.index[k] == rows.padding) continue;
    sum +=
        rows.table[rows.index[k] * rows.width] * (rows.weights != nullptr ? rows.weights[k] : T(1));
  }
  *to = sum * scale;
}

// Calls f(rows, first column, a constant) for groups of columns: four vectors, one, one element.
template <class T, class F>
void by_columns(const BagRows<T>& all, F f) {
  constexpr int64_t kLanes = kRegister / sizeof(T);
  BagRows<T> rows = all;
  int64_t done = 0;
  const auto run = [&](auto vectors, int64_t width) {
    for (; done + width <= all.width; done += width, rows.table += width) f(rows, done, vectors);
  };
  run(std::integral_constant<int, 4>(), 4 * kLanes);
  run(std::integral_constant<int, 1>(), kLanes);
  run(std::integral_constant<int, 0>(), 1);
}
template <class T>
void sum_rows(const BagRows<T>& all, T scale, T* to) {
  by_columns(all, [&](const BagRows<T>& rows, int64_t column, auto vectors) {
    if constexpr (vectors.value == 0)
      sum_column(rows, scale, to + column);
    else
      sum_columns<vectors.value>(rows, scale, to + column);
  });
}
template <class T>
void largest_rows(const BagRows<T>& all, T* to, int64_t* at) {
  const bool narrow = all.n <= std::numeric_limits<int32_t>::max();
  by_columns(all, [&](const BagRows<T>& rows, int64_t column, auto vectors) {
    if constexpr (vectors.value == 0) {
      largest_column(rows, to + column, at + column);
    } else {
      constexpr int64_t kWidth = vectors.value * kRegister / static_cast<int64_t>(sizeof(T));
      if (narrow) return largest_columns<vectors.value>(rows, to + column, at + column);
      BagRows<T> one = rows;  // int32 places would overflow
      for (int64_t i = 0; i < kWidth; ++i, ++one.table)
        largest_column(one, to + column + i, at + column + i);
    }
  });
}

// The sign bit of one of the two differences is set if an index is too small or too large.
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

template <class Stride>
bool load_at(const char* index, Stride stride, int64_t n, int64_t size, int64_t* __restrict to) {
  uint64_t signs = 0;
  const auto top = static_cast<uint64_t>(size - 1);
  for (int64_t i = 0; i < n; ++i) {
    uint64_t v;
    std::memcpy(&v, index + i * stride, sizeof v);
    to[i] = static_cast<int64_t>(v);
    signs |= v | (top - v);
  }
  return signs >> 63 == 0;
}
bool load(const char* index, int64_t stride, int64_t n, int64_t size, int64_t* to) {
  constexpr std::integral_constant<int64_t, sizeof(int64_t)> kDense;
  return stride == kDense ? load_at(index, kDense, n, size, to)
                          : load_at(index, stride, n, size, to);
}

// Calls copy(i, index[i]) for i < n, up to the first index out of range.
template <class F>
int64_t each_row(const int64_t* index, int64_t n, int64_t size, int64_t* bad, F copy) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = load_index(index + i);
    if (!within(row, size)) [[unlikely]] {
      *bad = row;
      return i;
    }
    copy(i, row);
  }
  return n;
}

// Copies in moves of kStep bytes; the last one overlaps the one before.
template <int64_t kStep>
void copy_row(char* to, const char* from, int64_t bytes) {
  int64_t i = 0;
  for (; i + kStep <= bytes; i += kStep) std::memcpy(to + i, from + i, kStep);
  if (i < bytes) std::memcpy(to + bytes - kStep, from + bytes - kStep, kStep);
}

// Returns a function that copies a row of `bytes` bytes and prefetches the row kAhead positions
// later.
template <int64_t kStep>
auto long_rows(char* to, const char* from, const int64_t* index, int64_t n, int64_t bytes) {
  return [=](int64_t i, int64_t row) {
    if (i + kAhead < n) {
      const auto ahead = static_cast<uint64_t>(load_index(index + i + kAhead));
      const auto next = reinterpret_cast<uintptr_t>(from) + ahead * static_cast<uint64_t>(bytes);
      __builtin_prefetch(reinterpret_cast<const char*>(next));
      __builtin_prefetch(reinterpret_cast<const char*>(next + static_cast<uint64_t>(bytes) - 1));
    }
    copy_row<kStep>(to + i * bytes, from + row * bytes, bytes);
  };
}
template <int64_t kBytes>
auto fixed_rows(char* to, const char* from) {
  return [=](int64_t i, int64_t row) { std::memcpy(to + i * kBytes, from + row * kBytes, kBytes); };
}

int64_t copy_rows(char* to, const char* from, const int64_t* index, int64_t n, int64_t size,
                  int64_t bytes, int64_t* bad) {
  const auto run = [=](auto copy) { return each_row(index, n, size, bad, copy); };
  switch (bytes) {
    case 0:  // needs no memory
      return run([](int64_t, int64_t) {});
    case 1:
      return run(fixed_rows<1>(to, from));
    case 2:
      return run(fixed_rows<2>(to, from));
    case 4:
      return run(fixed_rows<4>(to, from));
    case 8:
      return run(fixed_rows<8>(to, from));
    case 16:
      return run(fixed_rows<16>(to, from));
    case 32:
      return run(fixed_rows<32>(to, from));
    default:
      break;
  }
  if (bytes < 16 || bytes > kLongRow)
    return run([=](int64_t i, int64_t row) {
      std::memcpy(to + i * bytes, from + row * bytes, static_cast<size_t>(bytes));
    });
  return bytes < kVector ? run(long_rows<16>(to, from, index, n, bytes))
                         : run(long_rows<kVector>(to, from, index, n, bytes));
}

}  // namespace

IndexLoops index_loops() {
  return {add<float>,
          add<double>,
          sum_rows<float>,
          sum_rows<double>,
          largest_rows<float>,
          largest_rows<double>,
          in_range,
          load,
          copy_rows};
}

}  // namespace cograd::kernels::COGRAD_ISA
