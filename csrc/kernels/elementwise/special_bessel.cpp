// SPDX-License-Identifier: BSD-3-Clause
// Bessel and Airy functions. Near the origin they are polynomials, with the logarithmic part
// separate (DLMF 10.8, 10.31); far from it, polynomials give the amplitudes of the asymptotic forms
// (DLMF 10.17, 10.40, 9.7).
#include <math.h>

#include "kernels/elementwise/special_functions.h"
#include "kernels/elementwise/special_tables.h"

namespace cograd::kernels::special {

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kTwoOverPi = 0.63661977236758134308;
constexpr double kNaN = NAN;

struct Wave {
  double j, y;
};
// Computes J and Y of one order for x >= 8. cos(x - pi/4) is (cos x + sin x) / sqrt 2, which avoids
// a rounded shift.
Wave far0(double x) {
  if (x == HUGE_VAL) return {0, 0};
  const double r = 8 / x, p = tables::kP0(r * r), q = r * tables::kQ0(r * r);
  const double c = cos(x), s = sin(x), scale = 1 / sqrt(kPi * x);
  return {scale * (p * (c + s) - q * (s - c)), scale * (p * (s - c) + q * (c + s))};
}
Wave far1(double x) {
  if (x == HUGE_VAL) return {0, 0};
  const double r = 8 / x, p = tables::kP1(r * r), q = r * tables::kQ1(r * r);
  const double c = cos(x), s = sin(x), scale = 1 / sqrt(kPi * x);
  return {scale * (p * (s - c) + q * (s + c)), scale * (q * (s - c) - p * (s + c))};
}

// Multiplies by exp(x) in two steps: exp(x) may overflow where the product does not.
double times_exp(double v, double x) {
  const double half = exp(0.5 * x);
  return v * half * half;
}

}  // namespace

double bessel_j0(double x) noexcept {
  x = fabs(x);
  return x < 8 ? tables::kJ0(x * x) : x >= 8 ? far0(x).j : x;
}
double bessel_j1(double x) noexcept {
  const double a = fabs(x);
  if (a < 8) return x * tables::kJ1(a * a);
  return a >= 8 ? copysign(1.0, x) * far1(a).j : x;
}
double bessel_y0(double x) noexcept {
  if (x == 0) return -HUGE_VAL;
  if (!(x > 0)) return kNaN;
  if (x >= 8) return far0(x).y;
  return kTwoOverPi * log(0.5 * x) * tables::kJ0(x * x) + tables::kY0(x * x);
}
double bessel_y1(double x) noexcept {
  if (x == 0) return -HUGE_VAL;
  if (!(x > 0)) return kNaN;
  if (x >= 8) return far1(x).y;
  const double t = x * x;
  return kTwoOverPi * (log(0.5 * x) * x * tables::kJ1(t) - 1 / x) + x * tables::kY1(t);
}

double i0e(double x) noexcept {
  x = fabs(x);
  return x <= 8 ? tables::kI0e(x) : tables::kI0Far(1 / x) / sqrt(x);
}
double i1e(double x) noexcept {
  const double a = fabs(x);
  if (a <= 8) return x * tables::kI1e(a);
  return copysign(tables::kI1Far(1 / a) / sqrt(a), x);
}
double i0(double x) noexcept {
  x = fabs(x);
  return x == HUGE_VAL ? x : times_exp(i0e(x), x);
}
double i1(double x) noexcept { return fabs(x) == HUGE_VAL ? x : times_exp(i1e(x), fabs(x)); }

double k0(double x) noexcept {
  if (!(x > 0)) return x == 0 ? HUGE_VAL : kNaN;
  if (x > 1) return x == HUGE_VAL ? 0 : times_exp(k0e(x), -x);
  return tables::kK0(x * x) - log(0.5 * x) * times_exp(tables::kI0e(x), x);
}
double k1(double x) noexcept {
  if (!(x > 0)) return x == 0 ? HUGE_VAL : kNaN;
  if (x > 1) return x == HUGE_VAL ? 0 : times_exp(k1e(x), -x);
  return 1 / x + x * (tables::kK1(x * x) + log(0.5 * x) * times_exp(tables::kI1e(x), x));
}
double k0e(double x) noexcept { return x > 1 ? tables::kK0Far(1 / x) / sqrt(x) : exp(x) * k0(x); }
double k1e(double x) noexcept { return x > 1 ? tables::kK1Far(1 / x) / sqrt(x) : exp(x) * k1(x); }

double spherical_bessel_j0(double x) noexcept {
  if (fabs(x) == HUGE_VAL) return 0;
  const double t = x * x;
  if (t > 1e-3) return sin(x) / x;
  return 1 - t / 6 * (1 - t / 20 * (1 - t / 42 * (1 - t / 72)));
}

namespace {

// An unevaluated sum of two doubles, which has about twice the precision of one.
struct Sum {
  double high, rest;
};

// Returns 2/3 x^1.5 as a sum of two numbers, because callers need its sine where it is large.
Sum airy_zeta(double x) {
  const double root = sqrt(x), root_rest = fma(-root, root, x) / (2 * root);
  const double power = x * root, power_rest = fma(x, root, -power) + x * root_rest;
  const double zeta = 2 * power / 3;
  return {zeta, (fma(-3.0, zeta, 2 * power) + 2 * power_rest) / 3};
}

}  // namespace

double airy_ai(double x) noexcept {
  constexpr double kRootPi = 1.77245385090551602730;
  if (x >= -4 && x <= 1) return tables::kAiryNear(x);
  if (x > 1) {
    if (x > 110) return 0;
    const auto [zeta, rest] = airy_zeta(x);
    return tables::kAiryDecay(1 / zeta) / sqrt(sqrt(x)) * (exp(-zeta) * (1 - rest));
  }
  if (!(x >= -HUGE_VAL)) return x;
  if (x < -1e200) return 0;  // below the amplitude's last bit; x^1.5 would overflow
  const auto [zeta, rest] = airy_zeta(-x);
  const double t = 1 / (zeta * zeta);
  const double c = cos(zeta) - rest * sin(zeta), s = sin(zeta) + rest * cos(zeta);
  const double f = tables::kAiryCos(t), g = tables::kAirySin(t) / zeta;
  return ((c + s) * f + (s - c) * g) / (1.41421356237309504880 * kRootPi * sqrt(sqrt(-x)));
}

}  // namespace cograd::kernels::special
