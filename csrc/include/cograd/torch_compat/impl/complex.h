// SPDX-License-Identifier: BSD-3-Clause
// c10::complex is cograd's complex number. The functions of <complex> in std accept it.
#pragma once
#include <complex>

#include "cograd/complex.h"

namespace c10 {
template <class T>
using complex = ::cograd::Complex<T>;
}  // namespace c10

namespace std {

#define COGRAD_COMPLEX_FUNCTION(name)                               \
  template <class T>                                                \
  inline ::cograd::Complex<T> name(const ::cograd::Complex<T>& z) { \
    return std::name(static_cast<std::complex<T>>(z));              \
  }
COGRAD_COMPLEX_FUNCTION(exp)
COGRAD_COMPLEX_FUNCTION(log)
COGRAD_COMPLEX_FUNCTION(log10)
COGRAD_COMPLEX_FUNCTION(sqrt)
COGRAD_COMPLEX_FUNCTION(sin)
COGRAD_COMPLEX_FUNCTION(cos)
COGRAD_COMPLEX_FUNCTION(tan)
COGRAD_COMPLEX_FUNCTION(asin)
COGRAD_COMPLEX_FUNCTION(acos)
COGRAD_COMPLEX_FUNCTION(atan)
COGRAD_COMPLEX_FUNCTION(sinh)
COGRAD_COMPLEX_FUNCTION(cosh)
COGRAD_COMPLEX_FUNCTION(tanh)
COGRAD_COMPLEX_FUNCTION(asinh)
COGRAD_COMPLEX_FUNCTION(acosh)
COGRAD_COMPLEX_FUNCTION(atanh)
#undef COGRAD_COMPLEX_FUNCTION

template <class T>
inline ::cograd::Complex<T> conj(const ::cograd::Complex<T>& z) {
  return ::cograd::conj(z);
}
template <class T>
inline T real(const ::cograd::Complex<T>& z) {
  return z.re;
}
template <class T>
inline T imag(const ::cograd::Complex<T>& z) {
  return z.im;
}
template <class T>
inline T abs(const ::cograd::Complex<T>& z) {
  return std::hypot(z.re, z.im);
}
template <class T>
inline T arg(const ::cograd::Complex<T>& z) {
  return std::atan2(z.im, z.re);
}
template <class T>
inline T norm(const ::cograd::Complex<T>& z) {
  return z.re * z.re + z.im * z.im;
}
template <class T>
inline ::cograd::Complex<T> pow(const ::cograd::Complex<T>& z, const ::cograd::Complex<T>& p) {
  return std::pow(static_cast<std::complex<T>>(z), static_cast<std::complex<T>>(p));
}
template <class T>
inline ::cograd::Complex<T> pow(const ::cograd::Complex<T>& z, const T& p) {
  return std::pow(static_cast<std::complex<T>>(z), p);
}

}  // namespace std
