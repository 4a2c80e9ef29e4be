// SPDX-License-Identifier: BSD-3-Clause
// Scalar math under one name per function for float, double and integers, declared so that g++
// turns loops over it into vector calls. Only the per-ISA kernel files include this.
#pragma once
#include <math.h>
#include <stdint.h>

// glibc declares its vector variants under __FAST_MATH__ only; the attribute promises only that
// they exist.
#if defined(__x86_64__) && defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 35)
#define COGRAD_SIMD __attribute__((simd("notinbranch")))
#define COGRAD_VEC1(name)                   \
  COGRAD_SIMD double name(double) noexcept; \
  COGRAD_SIMD float name##f(float) noexcept;
#define COGRAD_VEC2(name)                           \
  COGRAD_SIMD double name(double, double) noexcept; \
  COGRAD_SIMD float name##f(float, float) noexcept;
extern "C" {
COGRAD_VEC1(exp)
COGRAD_VEC1(exp2)
COGRAD_VEC1(expm1)
COGRAD_VEC1(log)
COGRAD_VEC1(log1p)
COGRAD_VEC1(log2)
COGRAD_VEC1(log10)
COGRAD_VEC1(sin)
COGRAD_VEC1(cos)
COGRAD_VEC1(tan)
COGRAD_VEC1(asin)
COGRAD_VEC1(acos)
COGRAD_VEC1(atan)
COGRAD_VEC1(sinh)
COGRAD_VEC1(cosh)
COGRAD_VEC1(tanh)
COGRAD_VEC1(asinh)
COGRAD_VEC1(acosh)
COGRAD_VEC1(atanh)
COGRAD_VEC1(erf)
COGRAD_VEC1(erfc)
COGRAD_VEC2(pow)
COGRAD_VEC2(atan2)
COGRAD_VEC2(hypot)
}
#undef COGRAD_VEC1
#undef COGRAD_VEC2
#endif

// Everything is in an unnamed namespace: if an inline function had external linkage, the linker
// could use the copy that was compiled here for AVX-512 in the baseline, too.
namespace cograd::kernels {
namespace {

#define COGRAD_MATH1(name)                            \
  inline float name(float v) { return ::name##f(v); } \
  inline double name(double v) { return ::name(v); }
#define COGRAD_MATH2(name)                                        \
  inline float name(float a, float b) { return ::name##f(a, b); } \
  inline double name(double a, double b) { return ::name(a, b); }
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
COGRAD_MATH1(erfc)
COGRAD_MATH1(sqrt)
COGRAD_MATH2(atan2)
COGRAD_MATH2(hypot)
COGRAD_MATH2(nextafter)
COGRAD_MATH2(copysign)
#undef COGRAD_MATH1
#undef COGRAD_MATH2

inline double exp(double v) { return ::exp(v); }
inline double erf(double v) { return ::erf(v); }

// Splits v = 2 k ln 2 + r with |r| <= ln 2; holds expm1(r), and 2^k for k in [-126, 127].
struct ExpParts {
  float root;  // 2^k
  float expm1_r;
};
inline ExpParts exp_parts(float v) {
  // Adding kShift rounds to an integer, which is then in the low bits, biased as an exponent.
  constexpr float kShift = 0x1.8p23f + 127.0f;
  const float shifted = v * 0.72134752f + kShift;
  const float k = shifted - kShift;
  // Subtract 2 ln 2 in two pieces, the first short enough for an exact product.
  float r = v - k * 1.38671875f;
  r = r + k * 4.2438881e-4f;
  float p = 0.00019610836f;
  p = p * r + 0.0014105091f;
  p = p * r + 0.0083361203f;
  p = p * r + 0.041661236f;
  p = p * r + 0.16666614f;
  p = p * r + 0.50000036f;
  return {__builtin_bit_cast(float, __builtin_bit_cast(uint32_t, shifted) << 23), p * (r * r) + r};
}

// Inlined float exp and erf: half the time of a libmvec call, errors of 1.5 and 3 ulp.
inline float exp(float v) {
  const float above = v < -105.0f ? -105.0f : v;
  const ExpParts e = exp_parts(above > 89.0f ? 89.0f : above);
  return (e.expm1_r * e.root + e.root) * e.root;  // subnormal results are rounded once
}
// Computes -expm1(log(erfc(|v|))), with a polynomial for the logarithm.
inline float erf(float v) {
  const float magnitude = __builtin_fabsf(v);
  const float x = magnitude > 4.0f ? 4.0f : magnitude;
  float q = -9.2563243e-06f;
  q = q * x + 1.1764182e-04f;
  q = q * x - 6.3283893e-04f;
  q = q * x + 1.6670314e-03f;
  q = q * x - 1.6040029e-04f;
  q = q * x - 1.9153062e-02f;
  q = q * x + 1.0277783e-01f;
  q = q * x + 6.3661939e-01f;
  q = q * x + 1.1283792f;
  const ExpParts e = exp_parts(-q * x);
  const float scale = e.root * e.root;
  return __builtin_copysignf((1.0f - scale) - scale * e.expm1_r, v);
}

template <class T>
inline constexpr bool is_float = false;
template <>
inline constexpr bool is_float<float> = true;
template <>
inline constexpr bool is_float<double> = true;
template <>
inline constexpr bool is_float<long double> = true;

// Rounding is the identity for integers. `round` is half to even: nobody changes the rounding mode.
#define COGRAD_ROUNDING(name, builtin)                                         \
  inline float name(float v) { return __builtin_##builtin##f(v); }             \
  inline double name(double v) { return __builtin_##builtin(v); }              \
  inline long double name(long double v) { return __builtin_##builtin##l(v); } \
  template <class T>                                                           \
  inline T name(T v) {                                                         \
    return v;                                                                  \
  }
COGRAD_ROUNDING(floor, floor)
COGRAD_ROUNDING(ceil, ceil)
COGRAD_ROUNDING(trunc, trunc)
COGRAD_ROUNDING(round, rint)
#undef COGRAD_ROUNDING

inline float abs(float v) { return __builtin_fabsf(v); }
inline double abs(double v) { return __builtin_fabs(v); }
inline long double copysign(long double a, long double b) { return __builtin_copysignl(a, b); }
template <class T>
inline T abs(T v) {
  return static_cast<T>(v < T(0) ? -v : v);
}
template <class T>
inline T sign(T v) {
  if constexpr (is_float<T>) {
    // NaN compares false twice, so it becomes 0, as in torch.
    return (v > T(0) ? T(1) : T(0)) - (v < T(0) ? T(1) : T(0));
  } else {
    return static_cast<T>((v > T(0)) - (v < T(0)));
  }
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
inline bool isfinite(float v) { return abs(v) <= __FLT_MAX__; }
inline bool isfinite(double v) { return abs(v) <= __DBL_MAX__; }
inline bool isposinf(float v) { return v > __FLT_MAX__; }
inline bool isposinf(double v) { return v > __DBL_MAX__; }
inline bool isneginf(float v) { return v < -__FLT_MAX__; }
inline bool isneginf(double v) { return v < -__DBL_MAX__; }
inline bool signbit(float v) { return __builtin_signbitf(v) != 0; }
inline bool signbit(double v) { return __builtin_signbit(v) != 0; }
#define COGRAD_INTEGER_CONSTANT(name, value) \
  template <class T>                         \
  inline bool name([[maybe_unused]] T v) {   \
    return value;                            \
  }
COGRAD_INTEGER_CONSTANT(isnan, false)
COGRAD_INTEGER_CONSTANT(isfinite, true)
COGRAD_INTEGER_CONSTANT(isposinf, false)
COGRAD_INTEGER_CONSTANT(isneginf, false)
COGRAD_INTEGER_CONSTANT(signbit, v < T(0))
#undef COGRAD_INTEGER_CONSTANT

// The comparisons and `where` are functions: gradient formulas use them on tensors and on scalars.
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

// Corrects r = a - trunc(a / b) * b, one exact step. Returns NaN for a too large quotient or
// special operands; the kernel recomputes these lanes in long double. `overflow` times the largest
// valid quotient is just finite; a select instead would keep callers from vectorising.
template <class T>
inline T fmod_finish(T a, T b, T quotient, T r, T overflow) {
  // The rounded quotient may be too large by one; then r has the wrong sign.
  const bool beyond = (r != T(0)) & ((r < T(0)) != (a < T(0)));
  const T fixed = beyond ? r + copysign(b, a) : r;
  const T test = quotient * overflow;
  return copysign(fixed + (test - test), a);
}
#if defined(__FMA__)
inline float fmod(float a, float b) {
  const float q = a / b;
  return fmod_finish(a, b, q, __builtin_fmaf(-trunc(q), b, a), 0x1p106f);
}
inline double fmod(double a, double b) {
  const double q = a / b;
  return fmod_finish(a, b, q, __builtin_fma(-trunc(q), b, a), 0x1p973);
}
#else
inline float fmod(float a, float b) {
  const double wide = a, q = wide / b;  // for valid quotients the product is exact in double
  return static_cast<float>(fmod_finish<double>(a, b, q, wide - trunc(q) * b, 0x1p1002));
}
inline double fmod(double a, double b) { return ::fmod(a, b); }
#endif
inline long double fmod(long double a, long double b) { return ::fmodl(a, b); }

// Vectorises through floating point: both quotients are exact enough for their integers.
template <class T>
inline T quotient(T a, T b) {
  if constexpr (sizeof(T) <= 2) {
    return static_cast<T>(static_cast<int32_t>(static_cast<float>(a) / static_cast<float>(b)));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(static_cast<double>(a) / static_cast<double>(b));
  } else {
    return static_cast<T>(a / b);
  }
}
// Integers: a zero divisor counts as 1 (the kernel has reported it), -1 wraps.
template <class T>
inline T div_trunc(T a, T b) {
  if constexpr (is_float<T>) {
    return trunc(a / b);
  } else {
    const bool negate = T(-1) < T(0) && b == static_cast<T>(-1);
    const T divisor = b == T(0) || negate ? T(1) : b;
    return quotient(negate ? static_cast<T>(-a) : a, divisor);
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
  // Combine the comparisons with bitwise logic: short-circuits would keep the loop from
  // vectorising.
  const bool across = (r != T(0)) & ((b < T(0)) != (r < T(0)));
  return across ? static_cast<T>(r + b) : r;
}
template <class T>
inline T div_floor(T a, T b) {
  if constexpr (is_float<T>) {
    // The quotient without its remainder is an integer up to rounding, which `round` removes.
    const T m = fmod(a, b);
    const bool across = (m != T(0)) & ((b < T(0)) != (m < T(0)));
    const T q = round((a - m) / b) - (across ? T(1) : T(0));
    const T direct = a / b;
    const T whole = q != T(0) ? q : copysign(T(0), direct);
    return b == T(0) ? direct : whole;
  } else {
    const T q = div_trunc(a, b);
    const T r = static_cast<T>(a - q * b);
    return r != T(0) && ((b < T(0)) != (r < T(0))) ? static_cast<T>(q - T(1)) : q;
  }
}

inline float pow(float a, float b) { return ::powf(a, b); }
inline double pow(double a, double b) { return ::pow(a, b); }
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
  if constexpr (T(-1) > T(0)) {
    return b >= T(kBits) ? T(0) : static_cast<T>(a >> static_cast<int>(b));
  } else {  // past the last bit is the sign
    return static_cast<T>(a >> (b < T(0) || b >= T(kBits) ? kBits - 1 : static_cast<int>(b)));
  }
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

}  // namespace
}  // namespace cograd::kernels
