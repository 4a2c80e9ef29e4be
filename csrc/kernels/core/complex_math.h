// SPDX-License-Identifier: BSD-3-Clause
// Functions of complex numbers. They use the vector functions of the parts where the result is
// exact to a few units in the last place of the larger part. Only the per-ISA kernel files include
// this.
#pragma once
#include <complex>

#include "cograd/complex.h"
#include "kernels/core/vecmath.h"

namespace cograd::kernels {
namespace {

template <class T>
inline Complex<T> exp(Complex<T> v) {
  const T size = exp(v.re);
  return {size * cos(v.im), size * sin(v.im)};
}
template <class T>
inline Complex<T> exp2(Complex<T> v) {
  return exp(v * T(0.69314718055994531));
}
// Computes the real part as expm1(a) cos(b) - 2 sin(b / 2)^2, which avoids cancellation near 1.
template <class T>
inline Complex<T> expm1(Complex<T> v) {
  const T half = sin(v.im * T(0.5));
  return {expm1(v.re) * cos(v.im) - T(2) * half * half, exp(v.re) * sin(v.im)};
}
// Computes log(w) for w = 1 + d. Near 1, |w|^2 is 1 + u with a small u computed without
// cancellation, and log(1 + u) = log(r) + (u - (r - 1)) / r for the rounded r.
template <class T>
inline Complex<T> log_around_one(Complex<T> w, Complex<T> d) {
  const T u = d.re * (d.re + T(2)) + d.im * d.im;
  const bool near = d.re * d.re + d.im * d.im < T(0.25);
  const T r = near ? T(1) + u : hypot(w.re, w.im);
  const T l = log(r);
  return {near ? T(0.5) * (l + (u - (r - T(1))) / r) : l, atan2(w.im, w.re)};
}
template <class T>
inline Complex<T> log(Complex<T> v) {
  return log_around_one(v, {v.re - T(1), v.im});
}
template <class T>
inline Complex<T> log2(Complex<T> v) {
  return log(v) * T(1.44269504088896341);
}
template <class T>
inline Complex<T> log10(Complex<T> v) {
  return log(v) * T(0.43429448190325183);
}
template <class T>
inline Complex<T> log1p(Complex<T> v) {
  return log_around_one({v.re + T(1), v.im}, v);
}
// Computes the larger part from the sum of absolute values, and the other from the parts' product.
template <class T>
inline Complex<T> sqrt(Complex<T> v) {
  const T a = abs(v.re), b = abs(v.im);
  const T large = sqrt(T(0.5) * a + T(0.5) * hypot(a, b));
  const T small = large == T(0) ? b : b / (T(2) * large);
  const bool left = v.re < T(0);
  return {left ? small : large, copysign(left ? large : small, v.im)};
}
template <class T>
inline Complex<T> rsqrt(Complex<T> v) {
  return Complex<T>(T(1)) / sqrt(v);
}
// Holds cosh(v) and sinh(v) computed from one exponential; NaN if that overflows.
template <class T>
struct Hyperbolic {
  T even, odd;
};
template <class T>
inline Hyperbolic<T> hyperbolic(T v) {
  const T m = expm1(abs(v)), q = m / (m + T(1));
  return {T(1) + T(0.5) * m * q, copysign(T(0.5) * (m + q), v)};
}
template <class T>
inline Complex<T> sin(Complex<T> v) {
  const Hyperbolic<T> h = hyperbolic(v.im);
  return {sin(v.re) * h.even, cos(v.re) * h.odd};
}
template <class T>
inline Complex<T> cos(Complex<T> v) {
  const Hyperbolic<T> h = hyperbolic(v.im);
  return {cos(v.re) * h.even, -sin(v.re) * h.odd};
}
template <class T>
inline Complex<T> sinh(Complex<T> v) {
  const Hyperbolic<T> h = hyperbolic(v.re);
  return {h.odd * cos(v.im), h.even * sin(v.im)};
}
template <class T>
inline Complex<T> cosh(Complex<T> v) {
  const Hyperbolic<T> h = hyperbolic(v.re);
  return {h.even * cos(v.im), h.odd * sin(v.im)};
}
#define COGRAD_COMPLEX_STD(name)                       \
  template <class T>                                   \
  inline Complex<T> name(Complex<T> v) {               \
    return std::name(static_cast<std::complex<T>>(v)); \
  }
COGRAD_COMPLEX_STD(tan)
COGRAD_COMPLEX_STD(tanh)
COGRAD_COMPLEX_STD(asin)
COGRAD_COMPLEX_STD(acos)
COGRAD_COMPLEX_STD(atan)
COGRAD_COMPLEX_STD(asinh)
COGRAD_COMPLEX_STD(acosh)
COGRAD_COMPLEX_STD(atanh)
#undef COGRAD_COMPLEX_STD
// Uses exp(v) or exp(-v), whichever has absolute value at most 1.
template <class T>
inline Complex<T> sigmoid(Complex<T> v) {
  const bool left = v.re < T(0);
  const Complex<T> e = exp(Complex<T>(-abs(v.re), left ? v.im : -v.im));
  return Complex<T>(left ? e.re : T(1), left ? e.im : T(0)) / (Complex<T>(T(1)) + e);
}
template <class T>
inline T silu(T v) {
  return v / (T(1) + exp(-v));
}
template <class T>
inline Complex<T> silu(Complex<T> v) {
  return v * sigmoid(v);
}
// Returns 0 for 0 to a power with a positive real part, and 1 for any number to the power 0.
// Computes in double, because the exponent magnifies the error of the logarithm.
template <class T>
inline Complex<T> pow(Complex<T> v, Complex<T> w) {
  if (w == Complex<T>(T(0))) return Complex<T>(T(1));
  if (v == Complex<T>(T(0)) && w.re > T(0)) return Complex<T>(T(0));
  const std::complex<double> base{v.re, v.im}, exponent{w.re, w.im};
  const std::complex<double> r = std::pow(base, exponent);
  return {static_cast<T>(r.real()), static_cast<T>(r.imag())};
}

template <class T>
inline bool isnan(Complex<T> v) {
  return isnan(v.re) | isnan(v.im);
}
template <class T>
inline bool isposinf(Complex<T> v) {
  return isposinf(v.re) | isposinf(v.im);
}
template <class T>
inline bool isneginf(Complex<T> v) {
  return isneginf(v.re) | isneginf(v.im);
}
template <class T>
inline bool isfinite(Complex<T> v) {
  return isfinite(v.re) & isfinite(v.im);
}
template <class T>
inline Complex<T> where(bool c, Complex<T> a, Complex<T> b) {
  return c ? a : b;
}

// Provides the same functions for std::complex of a wider type, with C99's results at infinities
// and NaNs, and without overflow or underflow. Formulas find the others in std through the
// argument's namespace.
template <class W>
inline std::complex<W> exp2(std::complex<W> v) {
  return std::exp(v * static_cast<W>(0.693147180559945309417232121458176568L));
}
template <class W>
inline std::complex<W> log2(std::complex<W> v) {
  return std::log(v) * static_cast<W>(1.44269504088896340735992468100189214L);
}
template <class W>
inline std::complex<W> log1p(std::complex<W> v) {
  return std::log(std::complex<W>(v.real() + W(1), v.imag()));
}
template <class W>
inline std::complex<W> expm1(std::complex<W> v) {
  const std::complex<W> e = std::exp(v);
  return {e.real() - W(1), e.imag()};
}

// Replaces NaN and infinities; in complex numbers, in each part.
template <class T>
inline T repaired(T v, T nan, T posinf, T neginf) {
  return isnan(v) ? nan : isposinf(v) ? posinf : isneginf(v) ? neginf : v;
}
template <class T>
inline Complex<T> repaired(Complex<T> v, Complex<T> nan, Complex<T> posinf, Complex<T> neginf) {
  return {repaired(v.re, nan.re, posinf.re, neginf.re),
          repaired(v.im, nan.re, posinf.re, neginf.re)};
}
template <class T>
inline T where_finite(T v, T g) {
  return isfinite(v) ? g : T(0);
}

// Tests that formulas use instead of an order, which complex numbers lack.
template <class T>
inline bool below_half(T v) {
  return v < T(0.5);
}
template <class T>
inline bool below_half(Complex<T> v) {
  return v.re * v.re + v.im * v.im < T(0.25);
}
template <class T>
inline bool has_positive_part(T v) {
  return v >= T(0);
}
template <class T>
inline bool has_positive_part(Complex<T> v) {
  return v.re >= T(0);
}

}  // namespace
}  // namespace cograd::kernels
