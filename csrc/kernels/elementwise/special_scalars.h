// SPDX-License-Identifier: BSD-3-Clause
// Special functions by the names that rows use, for float and double: for the per-ISA kernel files,
// by way of special.h, and for the text of GPUs' kernels.
#pragma once
#include <math.h>

#include "kernels/elementwise/special_functions.h"

namespace cograd::kernels {
namespace {

inline constexpr double kPi = 3.14159265358979323846;

// Uses the recurrence up to 10, then the asymptotic series; reflection for negative arguments.
inline double digamma(double v) {
  if (v == 0) return ::copysign(HUGE_VAL, -v);
  double shift = 0;
  if (v < 0) {
    const double whole = ::trunc(v);
    if (v == whole) return NAN;
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
    const double s = kPi / ::sin(kPi * v);
    sum = -(s * s);
    factor = -1;
    v = 1 - v;
  }
  double tail = 0;
  for (; v < 15; v += 1) tail += 1 / (v * v);
  const double z = 1 / (v * v);
  tail += (1 + 0.5 / v + z * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42 - z / 30)))) / v;
  return factor * (sum + tail);
}
// Computes the n-th derivative of digamma, n >= 1 (DLMF 5.15.1).
inline double polygamma_of(double v, double n) {
  const double s = n + 1, sign = ::fmod(n, 2) == 1 ? 1 : -1;
  if (v <= 0 && v == ::floor(v)) return sign * HUGE_VAL;  // as torch: the limit from the right
  return sign * ::tgamma(s) * special::zeta(s, v);
}
// Runs Halley steps on erfc from a closed-form start with an error below 2e-3.
inline double erfinv(double v) {
  const double p = ::fabs(v);
  if (!(p < 1)) return p == 1 ? ::copysign(HUGE_VAL, v) : NAN;
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

#define COGRAD_SPECIAL1(name, function)                         \
  inline double name(double v) { return special::function(v); } \
  inline float name(float v) { return static_cast<float>(special::function(double{v})); }
#define COGRAD_SPECIAL2(name, function)                                      \
  inline double name(double a, double b) { return special::function(a, b); } \
  inline float name(float a, float b) {                                      \
    return static_cast<float>(special::function(double{a}, double{b}));      \
  }
COGRAD_SPECIAL1(i0, i0)
COGRAD_SPECIAL1(special_i0e, i0e)
COGRAD_SPECIAL1(special_i1, i1)
COGRAD_SPECIAL1(special_i1e, i1e)
COGRAD_SPECIAL1(bessel_k0, k0)
COGRAD_SPECIAL1(bessel_k1, k1)
COGRAD_SPECIAL1(bessel_k0e, k0e)
COGRAD_SPECIAL1(bessel_k1e, k1e)
COGRAD_SPECIAL1(bessel_j0, bessel_j0)
COGRAD_SPECIAL1(bessel_j1, bessel_j1)
COGRAD_SPECIAL1(bessel_y0, bessel_y0)
COGRAD_SPECIAL1(bessel_y1, bessel_y1)
COGRAD_SPECIAL1(spherical_bessel_j0, spherical_bessel_j0)
COGRAD_SPECIAL1(airy_ai, airy_ai)
COGRAD_SPECIAL1(erfcx, erfcx)
COGRAD_SPECIAL1(special_erfcx, erfcx)
COGRAD_SPECIAL1(log_ndtr, log_ndtr)
COGRAD_SPECIAL1(ndtri, ndtri)
COGRAD_SPECIAL2(gamma_p, gamma_p)
COGRAD_SPECIAL2(gamma_q, gamma_q)
COGRAD_SPECIAL2(hurwitz_zeta, zeta)
COGRAD_SPECIAL2(special_zeta, zeta)
COGRAD_SPECIAL2(chebyshev_t, chebyshev_t)
COGRAD_SPECIAL2(shifted_chebyshev_t, shifted_chebyshev_t)
COGRAD_SPECIAL2(chebyshev_u, chebyshev_u)
COGRAD_SPECIAL2(shifted_chebyshev_u, shifted_chebyshev_u)
COGRAD_SPECIAL2(chebyshev_v, chebyshev_v)
COGRAD_SPECIAL2(shifted_chebyshev_v, shifted_chebyshev_v)
COGRAD_SPECIAL2(chebyshev_w, chebyshev_w)
COGRAD_SPECIAL2(shifted_chebyshev_w, shifted_chebyshev_w)
COGRAD_SPECIAL2(hermite_h, hermite_h)
COGRAD_SPECIAL2(hermite_he, hermite_he)
COGRAD_SPECIAL2(laguerre_l, laguerre_l)
COGRAD_SPECIAL2(legendre_p, legendre_p)
#undef COGRAD_SPECIAL1
#undef COGRAD_SPECIAL2

}  // namespace
}  // namespace cograd::kernels
