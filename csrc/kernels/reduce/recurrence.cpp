// SPDX-License-Identifier: BSD-3-Clause
// The linear recurrence, and the running log of sums of exponentials of complex numbers.
#include <cmath>
#include <complex>
#include <utility>

#include "kernels/reduce/scan.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

namespace {

// The shape of a scan: rows of n elements that lie `inner` apart.
struct Rows {
  int64_t outer, n, inner;

  int64_t count() const { return outer * inner; }
  int64_t first(int64_t row) const { return row / inner * n * inner + row % inner; }
};

template <class T, class A>
void recurrence(const T* a, const T* b, T* s, const Rows& rows, bool reverse, int64_t lo,
                int64_t hi) {
  const int64_t step = reverse ? -rows.inner : rows.inner;
  for (int64_t r = lo; r < hi; ++r) {
    int64_t at = rows.first(r) + (reverse ? (rows.n - 1) * rows.inner : 0);
    A last = static_cast<A>(a[at]);  // NOLINT(bugprone-signed-char-misuse): int8 is a number
    s[at] = static_cast<T>(last);
    for (int64_t k = 1; k < rows.n; ++k) {
      at += step;
      last = static_cast<A>(a[at]) + (b == nullptr ? last : static_cast<A>(b[at]) * last);
      s[at] = static_cast<T>(last);
    }
  }
}

// Returns log(exp(a) + exp(b)) after factoring out the one with the larger real part.
template <class T>
Complex<T> log_add(Complex<T> a, Complex<T> b) {
  if (a.re < b.re) std::swap(a, b);
  if (std::isinf(a.re) && a.re < 0) return a;
  const std::complex<T> one(1), gap(b.re - a.re, b.im - a.im);
  const std::complex<T> y = std::complex<T>(a.re, a.im) + std::log(one + std::exp(gap));
  return {y.real(), y.imag()};
}

template <class T>
void log_add_rows(const Complex<T>* x, Complex<T>* y, const Rows& rows) {
  parallel_for(0, rows.count(), 256, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      int64_t at = rows.first(lo);
      y[at] = x[at];
      for (int64_t k = 1; k < rows.n; ++k, at += rows.inner)
        y[at + rows.inner] = log_add(y[at], x[at + rows.inner]);
    }
  });
}

}  // namespace

void linear_recurrence(DType t, const void* a, const void* b, void* s, int64_t outer, int64_t n,
                       int64_t inner, bool reverse) {
  COGRAD_SLOT(linear_recurrence, t, a, b, s, outer, n, inner, reverse);
  const Rows rows{outer, n, inner};
  if (rows.count() * n == 0) return;
  const HeavyScope heavy(rows.count() * n);
  dispatch_all(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float,
                                 std::conditional_t<std::is_integral_v<T>, int64_t, T>>;
    parallel_for(0, rows.count(), 1 + 32768 / n, [&](int64_t lo, int64_t hi) {
      recurrence<T, A>(static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(s), rows,
                       reverse, lo, hi);
    });
  });
}

void complex_logcumsumexp(DType t, const void* x, void* y, int64_t outer, int64_t n,
                          int64_t inner) {
  COGRAD_SLOT(complex_logcumsumexp, t, x, y, outer, n, inner);
  const Rows rows{outer, n, inner};
  if (n == 0) return;
  if (t == DType::Complex64)
    log_add_rows(static_cast<const Complex<float>*>(x), static_cast<Complex<float>*>(y), rows);
  else
    log_add_rows(static_cast<const Complex<double>*>(x), static_cast<Complex<double>*>(y), rows);
}

}  // namespace cograd::kernels
