// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic that the compiler does not contract, where results have the CPU's bits.
#pragma once
#include "prelude.h"

namespace cograd::device {

#if defined(__CUDACC_RTC__)
inline float mul_exact(float a, float b) { return __fmul_rn(a, b); }
inline float add_exact(float a, float b) { return __fadd_rn(a, b); }
inline double mul_exact(double a, double b) { return __dmul_rn(a, b); }
inline double add_exact(double a, double b) { return __dadd_rn(a, b); }
#else
inline float mul_exact(float a, float b) { return a * b; }
inline float add_exact(float a, float b) { return a + b; }
inline double mul_exact(double a, double b) { return a * b; }
inline double add_exact(double a, double b) { return a + b; }
#endif

// Rounds once, but to a 16-bit float through float.
template <class T>
inline T rounded_to(double v) {
  if constexpr (is_same<T, Half> || is_same<T, BFloat16>)
    return T(static_cast<float>(v));
  else if constexpr (is_complex_type<T>)
    return T(static_cast<typename T::value_type>(v));
  else
    return static_cast<T>(v);
}

}  // namespace cograd::device
