// SPDX-License-Identifier: BSD-3-Clause
// Implicit reparameterisation (Figurnov, Mohamed, Mnih 2018): for a sample x with distribution
// function F(x; a) and density f, dx/da = -(dF/da) / f. Dual numbers carry the derivative with
// respect to `a` through series and continued fractions of F / f, where nothing over- or
// underflows. For the CPU and for the text of GPUs' kernels.
#pragma once
#include <math.h>

#include "kernels/elementwise/special.h"

namespace cograd::kernels {
namespace {

// A value and its derivative with respect to the parameter.
struct Dual {
  double v, d;
};
inline Dual operator+(Dual a, Dual b) { return {a.v + b.v, a.d + b.d}; }
inline Dual operator-(Dual a, Dual b) { return {a.v - b.v, a.d - b.d}; }
inline Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
inline Dual operator/(Dual a, Dual b) {
  const double q = a.v / b.v;
  return {q, (a.d - q * b.d) / b.v};
}
inline Dual constant(double v) { return {v, 0}; }

inline constexpr double kTiny = 1e-300;
// Computes b0 + a1 / (b1 + a2 / (b2 + ...)) by Lentz's method; term(i) returns (a_i, b_i).
template <class F>
Dual continued_fraction(Dual b0, double eps, const F& term) {
  Dual f = b0, c = b0, d = constant(0);
  if (f.v == 0) f = c = constant(kTiny);
  for (int i = 1; i <= 100000; ++i) {
    const auto [a, b] = term(i);
    d = b + a * d;
    if (d.v == 0) d.v = kTiny;
    c = b + a / c;
    if (c.v == 0) c.v = kTiny;
    d = constant(1) / d;
    const Dual step = c * d;
    f = f * step;
    if (::fabs(step.v - 1) <= 10 * eps && ::fabs(step.d) <= 10 * eps) break;
  }
  return f;
}
struct Term {
  Dual a, b;
};

// P(a, x) = x f / a * sum of x^n / ((a + 1) ... (a + n)); used for x up to about a.
double gamma_by_series(double a, double x, double eps) {
  double term = 1, sum = 1, slope = 0, inverses = 0;
  for (int n = 1; n < 100000; ++n) {
    const double inverse = 1 / (a + n);
    term *= x * inverse;
    inverses += inverse;
    sum += term;
    slope -= term * inverses;
    if (term * (1 + inverses) < eps * sum) break;
  }
  return -x / a * ((::log(x) - digamma(a + 1)) * sum + slope);
}
// Q(a, x) = x f / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)); used for x above a.
double gamma_by_fraction(double a, double x, double eps) {
  const Dual q = continued_fraction({x + 1 - a, -1}, eps, [&](int i) {
    return Term{{-i * (i - a), static_cast<double>(i)}, {x + 2 * i + 1 - a, -1}};
  });
  const Dual whole = constant(1) / q;
  return x * ((::log(x) - digamma(a)) * whole.v + whole.d);
}
double within_limits(double z) { return z < -1e3 ? -1e3 : z > 1e3 ? 1e3 : z; }
// For large a: x = a + z sqrt(a) + (z^2 - 1) / 3 + ... with z normal (Cornish and Fisher).
double gamma_by_quantile(double a, double x) {
  const double root = ::sqrt(a);
  double z = within_limits((x - a) / root);
  for (int i = 0; i < 8; ++i) {
    const double zz = z * z;
    const double rest =
        (zz - 1) / 3 + z * (zz - 7) / (36 * root) - (3 * zz * zz + 7 * zz - 16) / (810 * a);
    z = within_limits((x - a - rest) / root);
  }
  const double zz = z * z;
  return 1 + z / (2 * root) - z * (zz - 7) / (72 * a * root) +
         (3 * zz * zz + 7 * zz - 16) / (810 * a * a);
}

double gamma_grad(double a, double x, double eps) {
  if (!(a > 0) || !(x >= 0)) return static_cast<double>(NAN);
  if (x == 0) return 0;
  if (a == HUGE_VAL || x == HUGE_VAL) return 1;
  if (a > 1e5) return gamma_by_quantile(a, x);
  return x < a + 1 ? gamma_by_series(a, x, eps) : gamma_by_fraction(a, x, eps);
}

// Uses I_x(p, q) / (x (1 - x) f) = 1 / (p (1 + d1 / (1 + d2 / ...))) for x up to about the mean.
// log_slope is the derivative of the logarithm of x (1 - x) f.
double beta_by_fraction(double x, Dual p, Dual q, double log_slope, double eps) {
  const Dual sum = p + q;
  const Dual f = continued_fraction(constant(1), eps, [&](int i) {
    const int half = i / 2;
    const Dual m = constant(half);
    Dual a;
    if (i % 2 == 0)
      a = m * (q - m) * constant(x) / ((p + m + m - constant(1)) * (p + m + m));
    else
      a = constant(-1) * (p + m) * (sum + m) * constant(x) /
          ((p + m + m) * (p + m + m + constant(1)));
    return Term{a, constant(1)};
  });
  const Dual scaled = constant(1) / (p * f);
  return log_slope * scaled.v + scaled.d;  // d I / dparameter divided by x (1 - x) f
}

// Computes dx/da of x ~ Beta(a, b), divided by 1 - x.
double beta_grad(double x, double a, double b, double eps) {
  if (!(a > 0) || !(b > 0) || !(x >= 0 && x <= 1)) return static_cast<double>(NAN);
  if (x == 0) return 0;
  const double sum = a + b;
  if (x == 1) x = 1 - 0x1p-53;
  const double y = 1 - x;
  if ((a > b ? a : b) > 1e7) {
    // Either one of the gamma variables in x = G / (G + H) is nearly constant, or both are normal.
    if (a <= 1e5) return gamma_grad(a, x / y * b, eps) / b * y;
    if (b <= 1e5) return x / a;
    const double mean = a / sum, spread = ::sqrt(mean * (1 - mean) / (sum + 1));
    const double z = (x - mean) / spread;
    const double slope = spread / 2 * (1 / a - 2 / sum - 1 / (sum + 1));
    return (b / (sum * sum) + z * slope) / y;
  }
  const double slope = ::log(x) - digamma(a) + digamma(sum);
  if (x <= a / sum) return -x * beta_by_fraction(x, {a, 1}, {b, 0}, slope, eps);
  return x * beta_by_fraction(y, {b, 0}, {a, 1}, slope, eps);
}

}  // namespace
}  // namespace cograd::kernels
