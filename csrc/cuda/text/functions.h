// SPDX-License-Identifier: BSD-3-Clause
// Functions of real numbers under the names that formulas of rows use: CUDA's functions for float
// and double, and what kernels/core/vecmath.h defines on top of them.
#pragma once
#include "prelude.h"

namespace cograd::device {

inline constexpr float kMostFloat = 3.402823466e+38f;
inline constexpr double kMostDouble = 1.7976931348623157e+308;
inline constexpr double kPi = 3.14159265358979323846;

#define COGRAD_MATH1(name)                            \
  inline float name(float v) { return ::name##f(v); } \
  inline double name(double v) { return ::name(v); }
#define COGRAD_MATH2(name)                                        \
  inline float name(float a, float b) { return ::name##f(a, b); } \
  inline double name(double a, double b) { return ::name(a, b); }
COGRAD_MATH1(exp)
COGRAD_MATH1(exp2)
COGRAD_MATH1(expm1)
COGRAD_MATH1(log)
COGRAD_MATH1(log1p)
COGRAD_MATH1(log2)
COGRAD_MATH1(log10)
COGRAD_MATH1(sin)
COGRAD_MATH1(cos)
COGRAD_MATH1(tan)
COGRAD_MATH1(asin)
COGRAD_MATH1(acos)
COGRAD_MATH1(atan)
COGRAD_MATH1(sinh)
COGRAD_MATH1(cosh)
COGRAD_MATH1(tanh)
COGRAD_MATH1(asinh)
COGRAD_MATH1(acosh)
COGRAD_MATH1(atanh)
COGRAD_MATH1(erf)
COGRAD_MATH1(erfc)
COGRAD_MATH1(sqrt)
COGRAD_MATH2(pow)
COGRAD_MATH2(fmod)
COGRAD_MATH2(atan2)
COGRAD_MATH2(hypot)
COGRAD_MATH2(nextafter)
COGRAD_MATH2(copysign)
#if defined(__CUDACC_RTC__)
COGRAD_MATH1(lgamma)
#else
// The C library's lgamma writes a global variable.
inline double lgamma(double v) {
  int sign;
  return ::lgamma_r(v, &sign);
}
inline float lgamma(float v) {
  int sign;
  return ::lgammaf_r(v, &sign);
}
#endif

// Rounding is the identity for integers; `round` is half to even.
#define COGRAD_ROUNDING(name, function)                   \
  inline float name(float v) { return ::function##f(v); } \
  inline double name(double v) { return ::function(v); }  \
  template <class T>                                      \
  inline T name(T v) {                                    \
    return v;                                             \
  }
COGRAD_ROUNDING(floor, floor)
COGRAD_ROUNDING(ceil, ceil)
COGRAD_ROUNDING(trunc, trunc)
COGRAD_ROUNDING(round, rint)
#undef COGRAD_ROUNDING
#undef COGRAD_MATH1
#undef COGRAD_MATH2

inline float abs(float v) { return ::fabsf(v); }
inline double abs(double v) { return ::fabs(v); }
template <class T>
inline T abs(T v) {
  return static_cast<T>(v < T(0) ? -v : v);
}
// NaN compares false twice, so it becomes 0, as in torch.
template <class T>
inline T sign(T v) {
  return static_cast<T>(static_cast<T>(v > T(0)) - static_cast<T>(v < T(0)));
}
template <class T>
inline T rsqrt(T v) {
  return T(1) / sqrt(v);
}
template <class T>
inline T sigmoid(T v) {
  return T(1) / (T(1) + exp(-v));
}
template <class T>
inline T sigmoid_slope(T v) {
  return sigmoid(v) * sigmoid(-v);
}
template <class T>
inline T silu(T v) {
  return v / (T(1) + exp(-v));
}
template <class T>
inline T square(T v) {
  return v * v;
}
template <class T>
inline T zeros_like(T) {
  return T(0);
}
template <class T>
inline T no_derivative(T, const char*) {  // never called: the formula on tensors raises
  return T(0);
}
template <class T>
inline T not_implemented(T, const char*) {  // never called, either
  return T(0);
}

inline bool isnan(float v) { return v != v; }
inline bool isnan(double v) { return v != v; }
inline bool isfinite(float v) { return abs(v) <= kMostFloat; }
inline bool isfinite(double v) { return abs(v) <= kMostDouble; }
inline bool isposinf(float v) { return v > kMostFloat; }
inline bool isposinf(double v) { return v > kMostDouble; }
inline bool isneginf(float v) { return v < -kMostFloat; }
inline bool isneginf(double v) { return v < -kMostDouble; }
inline bool signbit(float v) { return bits_of(v) >> 31 != 0; }
inline bool signbit(double v) { return bits_of(v) >> 63 != 0; }
template <class T>
inline bool isnan(T) {
  return false;
}
template <class T>
inline bool isfinite(T) {
  return true;
}
template <class T>
inline bool isposinf(T) {
  return false;
}
template <class T>
inline bool isneginf(T) {
  return false;
}
template <class T>
inline bool signbit(T v) {
  return v < T(0);
}

#define COGRAD_COMPARISON(name, op) \
  template <class T>                \
  inline bool name(T a, T b) {      \
    return a op b;                  \
  }
COGRAD_COMPARISON(eq, ==)
COGRAD_COMPARISON(ne, !=)
COGRAD_COMPARISON(lt, <)
COGRAD_COMPARISON(le, <=)
COGRAD_COMPARISON(gt, >)
COGRAD_COMPARISON(ge, >=)
COGRAD_COMPARISON(logical_and, &&)
COGRAD_COMPARISON(logical_or, ||)
#undef COGRAD_COMPARISON
template <class T>
inline T where(bool c, T a, T b) {
  return c ? a : b;
}

// Return NaN if one argument is NaN.
template <class T>
inline T maximum(T a, T b) {
  return a != a || a > b ? a : b;
}
template <class T>
inline T minimum(T a, T b) {
  return a != a || a < b ? a : b;
}
// Return the other argument if one is NaN.
template <class T>
inline T fmax(T a, T b) {
  return a >= b || b != b ? a : b;
}
template <class T>
inline T fmin(T a, T b) {
  return a <= b || b != b ? a : b;
}
// Compute maximum(v, lo), then minimum with hi, in torch's order for lo > hi; a NaN bound wins.
template <class T>
inline T clamp_min(T v, T lo) {
  return v < lo || lo != lo ? lo : v;
}
template <class T>
inline T clamp_max(T v, T hi) {
  return v > hi || hi != hi ? hi : v;
}

// Integers: a zero divisor counts as 1 (the kernel has reported it), -1 wraps.
template <class T>
inline T div_trunc(T a, T b) {
  if constexpr (is_float<T>) {
    return trunc(a / b);
  } else {
    const bool negate = T(-1) < T(0) && b == static_cast<T>(-1);
    const T divisor = b == T(0) || negate ? T(1) : b;
    return static_cast<T>((negate ? static_cast<T>(T(0) - a) : a) / divisor);
  }
}
template <class T>
inline T fmod(T a, T b) {
  return static_cast<T>(a - div_trunc(a, b) * b);
}
// The result has the sign of the divisor, as in Python.
template <class T>
inline T remainder(T a, T b) {
  const T r = fmod(a, b);
  return r != T(0) && (b < T(0)) != (r < T(0)) ? static_cast<T>(r + b) : r;
}
template <class T>
inline T div_floor(T a, T b) {
  if constexpr (is_float<T>) {
    // The quotient without its remainder is an integer up to rounding, which `round` removes.
    const T m = fmod(a, b);
    const bool across = m != T(0) && (b < T(0)) != (m < T(0));
    const T q = round((a - m) / b) - (across ? T(1) : T(0));
    const T direct = a / b;
    return b == T(0) ? direct : q != T(0) ? q : copysign(T(0), direct);
  } else {
    const T q = div_trunc(a, b);
    const T r = static_cast<T>(a - q * b);
    return r != T(0) && (b < T(0)) != (r < T(0)) ? static_cast<T>(q - T(1)) : q;
  }
}

template <class T>
inline T pow(T a, T b) {
  if (b < T(0)) {
    if (a == T(1)) return T(1);
    return a == static_cast<T>(-1) ? static_cast<T>((b & 1) != 0 ? -1 : 1) : T(0);
  }
  T result = T(1);
  for (; b != T(0); b = static_cast<T>(b >> 1)) {
    if ((b & 1) != 0) result = static_cast<T>(result * a);
    a = static_cast<T>(a * a);
  }
  return result;
}

// Multiplies by three factors, each a normal number: 2^b alone may overflow where a * 2^b does not.
template <class T>
inline T ldexp(T a, T b) {
  constexpr T kMost = sizeof(T) == 4 ? 378 : 3066;
  const T n = clamp_max(clamp_min(b, -kMost), kMost);
  const T third = trunc(n * T(1.0 / 3)), factor = exp2(third);
  return a * factor * factor * exp2(n - third - third);
}

inline bool bitwise_not(bool v) { return !v; }
template <class T>
inline T bitwise_not(T v) {
  return static_cast<T>(~v);
}
template <class T>
inline T left_shift(T a, T b) {
  constexpr int kBits = 8 * sizeof(T);
  return b < T(0) || b >= T(kBits) ? T(0) : static_cast<T>(static_cast<uint64_t>(a) << b);
}
template <class T>
inline T right_shift(T a, T b) {
  constexpr int kBits = 8 * sizeof(T);
  const bool past = b < T(0) || b >= T(kBits);
  if constexpr (T(-1) > T(0))
    return past ? T(0) : static_cast<T>(a >> static_cast<int>(b));
  else  // past the last bit is the sign
    return static_cast<T>(a >> (past ? kBits - 1 : static_cast<int>(b)));
}
template <class T>
inline T gcd(T a, T b) {
  a = abs(a);
  b = abs(b);
  while (b != T(0)) {
    const T r = fmod(a, b);
    a = b;
    b = r;
  }
  return a;
}

template <class T>
inline T logaddexp(T a, T b) {
  const T m = maximum(a, b);
  const T d = -abs(a - b);
  return d != d ? (a == b ? m : a + b) : m + log1p(exp(d));
}
template <class T>
inline T logaddexp2(T a, T b) {
  const T m = maximum(a, b);
  const T d = -abs(a - b);
  return d != d ? (a == b ? m : a + b) : m + log1p(exp2(d)) * T(1.4426950408889634);
}
template <class T>
inline T xlogy(T a, T b) {
  const T r = a * log(b);
  return isnan(b) ? b : a == T(0) ? T(0) : r;
}
template <class T>
inline T xlog1py(T a, T b) {
  const T r = a * log1p(b);
  return isnan(b) ? b : a == T(0) ? T(0) : r;
}

// Functions that gradient formulas use besides operations.
template <class T>
inline T log_beside(T, T v) {
  return log(v);
}
template <class T>
inline T erfcx_slope_far(T x) {
  const T r = T(1) / (x * x);
  return r * ((r * (r * T(13.125) - T(3.75)) + T(1.5)) * r - T(1)) * T(0.56418958354775629);
}

// Replaces NaN and infinities.
template <class T>
inline T repaired(T v, T nan, T posinf, T neginf) {
  return isnan(v) ? nan : isposinf(v) ? posinf : isneginf(v) ? neginf : v;
}
template <class T>
inline T where_finite(T v, T g) {
  return isfinite(v) ? g : T(0);
}
template <class T>
inline bool below_half(T v) {
  return v < T(0.5);
}
template <class T>
inline bool has_positive_part(T v) {
  return v >= T(0);
}

}  // namespace cograd::device
