// SPDX-License-Identifier: BSD-3-Clause
// Ranges are computed in double or int64, in blocks, and converted.
#include "kernels/core/sequences.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdlib>

#include "kernels/core/floating.h"
#include "kernels/core/store.h"
#include "tensor/dims.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

namespace {

constexpr int64_t kGrain = 32768;

void store(DType t, void* out, int64_t at, const double* values, int64_t n) {
  store_doubles(t, values, n, static_cast<char*>(out) + at * dtype_size(t));
}
void store(DType t, void* out, int64_t at, const Complex<double>* values, int64_t n) {
  if (t == DType::Complex64)
    for (int64_t i = 0; i < n; ++i)
      static_cast<Complex<float>*>(out)[at + i] = Complex<float>(values[i]);
  else
    std::copy_n(values, n, static_cast<Complex<double>*>(out) + at);
}

// Writes out[i] = value(i) as an element of dtype t.
template <class F>
void fill(DType t, void* out, int64_t n, const F& value) {
  const HeavyScope heavy(n);
  parallel_for(0, n, kGrain, [&](int64_t lo, int64_t hi) {
    decltype(value(lo)) block[256];
    for (; lo < hi; lo += std::ssize(block)) {
      const int64_t m = std::min<int64_t>(hi - lo, std::ssize(block));
      for (int64_t i = 0; i < m; ++i) block[i] = value(lo + i);
      store(t, out, lo, block, m);
    }
  });
}

// Computes from + step * i as torch does: rounded once, but 16-bit floats also round the product.
template <class T>
T counted_from(T from, T step, T i) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fma(step, i, from);
  else
    return T(static_cast<float>(from) +
             static_cast<float>(T(static_cast<float>(step) * static_cast<float>(i))));
}

// Works in the arithmetic of T to match torch bit by bit; false if the step overflows.
template <class T>
bool fill_evenly(void* out, int64_t n, double a, double b) {
  const T start = rounded<T>(a), end = rounded<T>(b);
  const T step = n > 1 ? T(T(end - start) / rounded<T>(static_cast<double>(n - 1))) : T(0);
  if (!std::isfinite(static_cast<double>(step))) return false;
  T* to = static_cast<T*>(out);
  const HeavyScope heavy(n);
  parallel_for(0, n, kGrain, [=](int64_t lo, int64_t hi) {
    const int64_t middle = n == 1 ? 1 : std::clamp(n / 2, lo, hi);
    for (int64_t i = lo; i < middle; ++i)
      to[i] = counted_from(start, step, rounded<T>(static_cast<double>(i)));
    for (int64_t i = middle; i < hi; ++i)
      to[i] = counted_from(end, T(-step), rounded<T>(static_cast<double>(n - 1 - i)));
  });
  return true;
}
bool fill_evenly(DType t, void* out, int64_t n, double a, double b) {
  switch (t) {
    case DType::Float16:
      return fill_evenly<Half>(out, n, a, b);
    case DType::BFloat16:
      return fill_evenly<BFloat16>(out, n, a, b);
    case DType::Float32:
      return fill_evenly<float>(out, n, a, b);
    case DType::Float64:
      return fill_evenly<double>(out, n, a, b);
    default:
      return false;
  }
}

}  // namespace

void arange_integers(DType t, void* out, int64_t n, uint64_t start, uint64_t step) {
  COGRAD_SLOT(arange_integers, t, out, n, start, step);
  const HeavyScope heavy(n);
  const auto run = [=](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    parallel_for(0, n, kGrain, [=](int64_t lo, int64_t hi) {
      for (int64_t i = lo; i < hi; ++i)
        to[i] = static_cast<T>(start + static_cast<uint64_t>(i) * step);
    });
  };
  switch (dtype_size(t)) {
    case 1:
      return run(static_cast<uint8_t*>(out));
    case 2:
      return run(static_cast<uint16_t*>(out));
    case 4:
      return run(static_cast<uint32_t*>(out));
    default:
      return run(static_cast<uint64_t*>(out));
  }
}
void arange(DType t, void* out, int64_t n, double start, double step) {
  COGRAD_SLOT(arange, t, out, n, start, step);
  fill(t, out, n, [=](int64_t i) { return start + static_cast<double>(i) * step; });
}

void linspace(DType t, void* out, int64_t n, double start, double end) {
  COGRAD_SLOT(linspace, t, out, n, start, end);
  if (!fill_evenly(t, out, n, start, end)) fill(t, out, n, Evenly(start, end, n));
}
void linspace_complex(DType t, void* out, int64_t n, Complex<double> start, Complex<double> end) {
  COGRAD_SLOT(linspace_complex, t, out, n, start, end);
  fill(t, out, n, Evenly(start, end, n));
}

void logspace(DType t, void* out, int64_t n, double base, double start, double end) {
  COGRAD_SLOT(logspace, t, out, n, base, start, end);
  const Evenly exponent(start, end, n);
  fill(t, out, n, [&](int64_t i) { return std::pow(base, exponent(i)); });
}
void logspace_complex(DType t, void* out, int64_t n, double base, Complex<double> start,
                      Complex<double> end) {
  COGRAD_SLOT(logspace_complex, t, out, n, base, start, end);
  const Evenly exponent(start, end, n);
  fill(t, out, n, [&](int64_t i) -> Complex<double> {
    return std::pow(std::complex<double>(base), std::complex<double>(exponent(i)));
  });
}

void triangle_indices(int64_t* row, int64_t* col, int64_t first, int64_t last, int64_t cols,
                      int64_t shift, bool upper) {
  COGRAD_SLOT(triangle_indices, row, col, first, last, cols, shift, upper);
  for (int64_t r = first; r < last; ++r) {
    const int64_t cut = std::clamp<int64_t>(shift + r, 0, cols);
    for (int64_t c = upper ? cut : 0; c < (upper ? cols : cut); ++c) {
      *row++ = r;
      *col++ = c;
    }
  }
}

void pair_indices(int64_t n, int64_t* out) {
  COGRAD_SLOT(pair_indices, n, out);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) *out++ = i * n + j;
}

void first_combination(int64_t* row, int64_t r, bool repeat) {
  COGRAD_SLOT(first_combination, row, r, repeat);
  for (int64_t j = 0; j < r; ++j) row[j] = repeat ? 0 : j;
}
void next_combinations(int64_t* row, int64_t count, int64_t n, int64_t r, bool repeat) {
  COGRAD_SLOT(next_combinations, row, count, n, r, repeat);
  for (int64_t k = 0; k < count; ++k, row += r) {
    int64_t j = r - 1;  // the last element that can still be incremented
    while (row[j] == (repeat ? n - 1 : n - r + j)) --j;
    std::copy_n(row, r, row + r);
    for (int64_t v = row[j] + 1; j < r; ++j) row[r + j] = repeat ? v : v++;
  }
}

void pad_indices(PadMode mode, int64_t n, int64_t left, int64_t count, int64_t* out) {
  COGRAD_SLOT(pad_indices, mode, n, left, count, out);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t i = k - left, from_start = std::abs(i);
    if (mode == PadMode::Replicate)
      out[k] = std::clamp<int64_t>(i, 0, n - 1);
    else if (mode == PadMode::Circular)
      out[k] = (i % n + n) % n;
    else
      out[k] = from_start < n ? from_start : 2 * (n - 1) - from_start;
  }
}

int64_t total_of(const int64_t* counts, int64_t n, int64_t* bad) {
  COGRAD_SLOT_READS(total_of, counts, n, bad);
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    *bad = counts[i];
    if (*bad < 0) return -1;
    total = checked_add(total, *bad);
  }
  return total;
}

void repeat_numbers(const int64_t* counts, int64_t n, int64_t* out) {
  COGRAD_SLOT(repeat_numbers, counts, n, out);
  for (int64_t i = 0; i < n; ++i) out = std::fill_n(out, counts[i], i);
}

}  // namespace cograd::kernels
