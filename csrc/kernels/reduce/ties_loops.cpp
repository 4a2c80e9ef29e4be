// SPDX-License-Identifier: BSD-3-Clause
// Counts and fills ties; compiled once per instruction set.
#include "kernels/reduce/ties_loops.h"

#include <algorithm>

namespace cograd::kernels::COGRAD_ISA {

TieLoops tie_loops();

namespace {

template <class T>
bool tie(T x, T y) {
  return (x == y) | ((x != x) & (y != y));
}

// Handles one column with contiguous elements.
template <class T>
int32_t count_line(const T* x, int64_t n, T y) {
  int32_t count = 0;
  if (y != y) {
    for (int64_t i = 0; i < n; ++i) count += x[i] != x[i];
  } else {
    for (int64_t i = 0; i < n; ++i) count += x[i] == y;
  }
  return count;
}

template <class T>
void count(const T* x, int64_t rows, int64_t ld, int64_t width, const T* y, int32_t* counts) {
  if (width == 1 && ld == 1) {
    *counts = count_line(x, rows, *y);
    return;
  }
  std::fill_n(counts, width, 0);
  for (int64_t i = 0; i < rows; ++i) {
    const T* row = x + i * ld;
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) counts[j] += tie(row[j], y[j]);
  }
}

template <class T>
void fill(const T* x, int64_t rows, int64_t ld, int64_t width, const T* y, const T* share, T* out) {
  if (width == 1 && ld == 1) {
    const T best = *y, part = *share;
    if (best != best) {
#pragma GCC ivdep
      for (int64_t i = 0; i < rows; ++i) out[i] = x[i] != x[i] ? part : T(0);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < rows; ++i) out[i] = x[i] == best ? part : T(0);
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    const T* row = x + i * ld;
    T* to = out + i * ld;
#pragma GCC ivdep
    for (int64_t j = 0; j < width; ++j) to[j] = tie(row[j], y[j]) ? share[j] : T(0);
  }
}

}  // namespace

TieLoops tie_loops() { return {{count<float>, fill<float>}, {count<double>, fill<double>}}; }

}  // namespace cograd::kernels::COGRAD_ISA
