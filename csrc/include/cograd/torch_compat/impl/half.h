// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic of 16-bit floats, which returns the same type as in torch, and their numeric limits.
#pragma once
#include "cograd/torch_compat/impl/base.h"

namespace cograd {

template <class T>
using IfHalf = std::enable_if_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, T>;

#define COGRAD_HALF_OPERATOR(op)                                  \
  template <class T>                                              \
  IfHalf<T> operator op(T a, T b) noexcept {                      \
    return static_cast<float>(a) op static_cast<float>(b);        \
  }                                                               \
  template <class T, class U, class = IfHalf<T>>                  \
  T& operator op## = (T & a, const U& b) noexcept {               \
    return a = T(static_cast<float>(a) op static_cast<float>(b)); \
  }
COGRAD_HALF_OPERATOR(+)
COGRAD_HALF_OPERATOR(-)
COGRAD_HALF_OPERATOR(*)
COGRAD_HALF_OPERATOR(/)
#undef COGRAD_HALF_OPERATOR
template <class T>
IfHalf<T> operator-(T a) noexcept {
  return -static_cast<float>(a);
}

namespace torch_compat {

template <class T, uint16_t kMax, uint16_t kMin, uint16_t kEpsilon, int kDigits, int kExponent>
struct HalfLimits : std::numeric_limits<float> {
  static constexpr int digits = kDigits;
  static constexpr int max_exponent = kExponent;
  static constexpr int radix = 2;
  static T from(uint16_t bits) noexcept {
    T t;
    t.bits = bits;
    return t;
  }
  static T max() noexcept { return from(kMax); }
  static T lowest() noexcept { return from(kMax | 0x8000u); }
  static T min() noexcept { return from(kMin); }
  static T epsilon() noexcept { return from(kEpsilon); }
  static T infinity() noexcept { return T(__builtin_inff()); }
  static T quiet_NaN() noexcept { return T(__builtin_nanf("")); }
};

}  // namespace torch_compat
}  // namespace cograd

namespace std {
template <>
class numeric_limits<cograd::Half>
    : public cograd::torch_compat::HalfLimits<cograd::Half, 0x7BFF, 0x0400, 0x1400, 11, 16> {};
template <>
class numeric_limits<cograd::BFloat16>
    : public cograd::torch_compat::HalfLimits<cograd::BFloat16, 0x7F7F, 0x0080, 0x3C00, 8, 128> {};
}  // namespace std
