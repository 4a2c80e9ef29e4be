// SPDX-License-Identifier: BSD-3-Clause
// Complex numbers as tensors store them: two reals, with the layout of std::complex, which converts
// to and from them.
#pragma once
#include <type_traits>

namespace cograd {

// Products and quotients use the plain formulas. Unlike std::complex they do not recompute NaN
// results, so that loops over them vectorise.
template <class T>
struct Complex {
  using value_type = T;
  T re, im;

  Complex() = default;
  template <class U, std::enable_if_t<std::is_arithmetic_v<U>, int> = 0>
  constexpr Complex(U real) noexcept : re(static_cast<T>(real)), im(T(0)) {}  // NOLINT: implicit
  constexpr Complex(T real, T imag) noexcept : re(real), im(imag) {}
  template <class U, std::enable_if_t<!std::is_same_v<T, U>, int> = 0>
  constexpr explicit Complex(const Complex<U>& v) noexcept
      : re(static_cast<T>(v.re)), im(static_cast<T>(v.im)) {}
  template <class C, std::enable_if_t<std::is_same_v<decltype(C(T(), T()).imag()), T>, int> = 0>
  constexpr Complex(const C& v) noexcept : re(v.real()), im(v.imag()) {}  // NOLINT: implicit
  template <class C, std::enable_if_t<std::is_same_v<decltype(C(T(), T()).imag()), T>, int> = 0>
  constexpr operator C() const noexcept {  // NOLINT: implicit
    return C(re, im);
  }

  constexpr T real() const noexcept { return re; }
  constexpr T imag() const noexcept { return im; }

  friend constexpr Complex operator+(Complex a, Complex b) noexcept {
    return {a.re + b.re, a.im + b.im};
  }
  friend constexpr Complex operator-(Complex a, Complex b) noexcept {
    return {a.re - b.re, a.im - b.im};
  }
  friend constexpr Complex operator*(Complex a, Complex b) noexcept {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend constexpr Complex operator*(Complex a, T b) noexcept { return {a.re * b, a.im * b}; }
  friend constexpr Complex operator*(T a, Complex b) noexcept { return {a * b.re, a * b.im}; }
  // Scales by the larger part of the divisor, so that squares neither overflow nor underflow.
  friend constexpr Complex operator/(Complex a, Complex b) noexcept {
    const T p = b.re < T(0) ? -b.re : b.re, q = b.im < T(0) ? -b.im : b.im;
    const T size = p < q ? q : p;
    const T c = b.re / size, d = b.im / size;
    const T scale = T(1) / ((c * c + d * d) * size);
    if (size == T(0)) return {a.re / size, a.im / size};
    return {(a.re * c + a.im * d) * scale, (a.im * c - a.re * d) * scale};
  }
  friend constexpr Complex operator/(Complex a, T b) noexcept { return {a.re / b, a.im / b}; }
  friend constexpr Complex operator-(Complex a) noexcept { return {-a.re, -a.im}; }
  friend constexpr Complex operator+(Complex a) noexcept { return a; }
  friend constexpr bool operator==(Complex a, Complex b) noexcept {
    return (a.re == b.re) & (a.im == b.im);
  }
  friend constexpr bool operator!=(Complex a, Complex b) noexcept { return !(a == b); }
  constexpr Complex& operator+=(Complex b) noexcept { return *this = *this + b; }
  constexpr Complex& operator-=(Complex b) noexcept { return *this = *this - b; }
  constexpr Complex& operator*=(Complex b) noexcept { return *this = *this * b; }
  constexpr Complex& operator/=(Complex b) noexcept { return *this = *this / b; }
};

template <class T>
inline constexpr bool is_complex_type = false;
template <class T>
inline constexpr bool is_complex_type<Complex<T>> = true;

template <class T>
constexpr Complex<T> conj(Complex<T> v) noexcept {
  return {v.re, -v.im};
}

}  // namespace cograd
