// SPDX-License-Identifier: BSD-3-Clause
// Special functions that no vector library has. Included by the per-ISA kernel files only.
#pragma once
#include "kernels/vecmath.h"

namespace cograd::kernels {
namespace {

// lgamma would write the global signgam.
inline float lgamma(float v) {
  int sign_of_gamma;
  return ::lgammaf_r(v, &sign_of_gamma);
}
inline double lgamma(double v) {
  int sign_of_gamma;
  return ::lgamma_r(v, &sign_of_gamma);
}

inline constexpr double kPi = 3.14159265358979323846;

// Recurrence up to 10, then the asymptotic series; reflection for negative arguments.
inline double digamma(double v) {
  if (v == 0) return ::copysign(HUGE_VAL, -v);
  double shift = 0;
  if (v < 0) {
    const double whole = __builtin_trunc(v);
    if (v == whole) return __builtin_nan("");
    shift = -kPi / ::tan(kPi * (v - whole));
    v = 1 - v;
  }
  for (; v < 10; v += 1) shift -= 1 / v;
  const double z = 1 / (v * v);
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 -
                           z * (1.0 / 252 -
                                z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return ::log(v) - 0.5 / v - series + shift;
}
inline double trigamma(double v) {
  double sum = 0, factor = 1;
  if (v < 0.5) {
    const double s = ::sin(kPi * v);
    sum = -(kPi * kPi) / (s * s);
    factor = -1;
    v = 1 - v;
  }
  double tail = 0;
  for (; v < 15; v += 1) tail += 1 / (v * v);
  const double z = 1 / (v * v);
  tail += (1 + 0.5 / v + z * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42 - z / 30)))) / v;
  return factor * (sum + tail);
}
// Sum of (v + k)^-s over k >= 0, for v > 0: terms up to s + 20, then Euler and Maclaurin's tail.
// A large s ends it early: the rest is a few times the last term.
inline double hurwitz_zeta(double s, double v) {
  double sum = 0;
  for (; v < s + 20; v += 1) {
    const double term = ::pow(v, -s);
    sum += term;
    if (term <= sum * 1e-19) return sum;
  }
  constexpr double kBernoulli[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66};
  const double power = ::pow(v, -s);
  sum += power * v / (s - 1) + 0.5 * power;
  double factor = 0.5 * s * power / v;
  for (int k = 1; k <= 5; ++k) {
    sum += kBernoulli[k - 1] * factor;
    factor *= (s + 2 * k - 1) * (s + 2 * k) / ((2 * k + 1) * (2 * k + 2) * v * v);
  }
  return sum;
}
// The n-th derivative of digamma, n >= 1. For negative v the sum runs over all integers, less those
// beyond v.
inline double polygamma_of(double v, double n) {
  const double s = n + 1, sign = ::fmod(n, 2) == 1 ? 1 : -1;
  double sum;
  if (v > 0) {
    sum = hurwitz_zeta(s, v);
  } else {
    const double part = v - ::floor(v);
    if (part == 0) return sign * HUGE_VAL;  // as torch has it: the limit from the right
    sum = hurwitz_zeta(s, part) + sign * (hurwitz_zeta(s, 1 - part) - hurwitz_zeta(s, 1 - v));
  }
  return sign * ::tgamma(s) * sum;
}
// Halley steps on erfc from a closed-form start that is within 2e-3.
inline double erfinv(double v) {
  const double p = __builtin_fabs(v);
  if (!(p < 1)) return p == 1 ? ::copysign(HUGE_VAL, v) : __builtin_nan("");
  if (p < 1e-9) return v * 0.88622692545275801365;
  const double l = ::log1p(-p * p);
  const double t = 2 / (kPi * 0.147) + 0.5 * l;
  double y = ::sqrt(::sqrt(t * t - l / 0.147) - t);
  for (int step = 0; step < 3; ++step) {
    const double error = p < 0.5 ? ::erf(y) - p : (1 - p) - ::erfc(y);
    const double u = error / (1.12837916709551257390 * ::exp(-y * y));
    y -= u / (1 + y * u);
  }
  return ::copysign(y, v);
}
inline float digamma(float v) { return static_cast<float>(digamma(static_cast<double>(v))); }
inline float trigamma(float v) { return static_cast<float>(trigamma(static_cast<double>(v))); }
inline float polygamma_of(float v, double n) {
  return static_cast<float>(polygamma_of(static_cast<double>(v), n));
}
inline float erfinv(float v) { return static_cast<float>(erfinv(static_cast<double>(v))); }

}  // namespace
}  // namespace cograd::kernels
