// SPDX-License-Identifier: BSD-3-Clause
// Incomplete gamma functions: by W. Gautschi, "A computational procedure for incomplete gamma
// functions" (1979), and by N. M. Temme's uniform expansion for large a and x near a. Also Hurwitz'
// zeta function.
#include <math.h>

#include "kernels/elementwise/special_functions.h"
#include "kernels/elementwise/special_tables.h"

namespace cograd::kernels::special {

namespace {

constexpr double kLarge = 1e100, kEpsilon = 1.1e-16;
constexpr int kMostTerms = 2000;

// Computes m - log(1 + m) without cancellation: log(1 + m) = 2 atanh(m / (2 + m)).
double log_gap(double m) {
  if (m > 0.6 || m < -0.5) return m - log1p(m);
  const double r = m / (2 + m), square = r * r;
  double sum = 0, power = r * square;
  for (int k = 3; k < 60; k += 2, power *= square) {
    sum += power / k;
    if (fabs(power) < 1e-18 * fabs(sum)) break;
  }
  return m * r - 2 * sum;
}

// Computes Gamma(a) / (sqrt(2 pi / a) (a / e)^a) for a >= 16, DLMF 5.11.1.
double scaled_gamma(double a) {
  const double z = 1 / (a * a);
  return exp((1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / a);
}

// Computes x^a exp(-x) / Gamma(a + 1).
double prefactor(double a, double x) {
  if (a < 16) {
    const double whole = floor(a), part = a - whole;  // for the recurrence of Gamma(a + 1)
    double product = 1;
    for (double i = 1; i <= whole; ++i) product *= part + i;
    return exp(a * log(x) - x - part * tables::kLogGamma1p(part)) / product;
  }
  const double m = (x - a) / a;
  const double gap = m < -0.5 ? m - log(x / a) : log_gap(m);
  return exp(-a * gap) / (sqrt(6.28318530717958647693 * a) * scaled_gamma(a));
}

// Computes P by DLMF 8.7.1.
double p_series(double a, double x) {
  double term = 1, sum = 1;
  for (int n = 1; n < kMostTerms && term >= kEpsilon * sum;) {
    for (const int end = n + 4; n < end; ++n) {  // checking after each term would take longer
      term *= x / (a + n);
      sum += term;
    }
  }
  return prefactor(a, x) * sum;
}
// Computes Q by DLMF 8.9.2: rescales the numerators and denominators of the convergents now and
// then.
double q_fraction(double a, double x) {
  const double front = prefactor(a, x) * a;
  if (front == 0) return 0;
  double b = x + 1 - a, over = 1, under = b, last_over = 0, last_under = 1, value = over / under;
  for (int n = 1; n < kMostTerms;) {
    for (const int end = n + 4; n < end; ++n) {
      const double factor = n * (a - n);
      b += 2;
      const double next_over = b * over + factor * last_over;
      const double next_under = b * under + factor * last_under;
      last_over = over;
      last_under = under;
      over = next_over;
      under = next_under;
    }
    const double now = over / under;
    if (fabs(now - value) <= kEpsilon * fabs(now)) return front * now;
    value = now;
    if (fabs(under) > kLarge) {
      over /= kLarge;
      under /= kLarge;
      last_over /= kLarge;
      last_under /= kLarge;
    }
  }
  return front * value;
}
// Computes Q for small a and x: 1 - x^a / Gamma(1 + a) is an expm1, the rest is a series.
double q_small(double a, double x) {
  double sum = 0, power = 1;
  for (int n = 1; n < 100; ++n) {
    power *= -x / n;
    sum += power / (a + n);
    if (fabs(power) < kEpsilon * fabs(sum)) break;
  }
  const double exponent = a * (log(x) - tables::kLogGamma1p(a));
  return -expm1(exponent) - exp(exponent) * a * sum;
}
// Computes P, or Q if `upper`, by DLMF 8.12.3 and 8.12.4.
double uniform(double a, double x, bool upper) {
  const double m = (x - a) / a, gap = log_gap(m);
  const double eta = copysign(sqrt(2 * gap), m), z = eta * sqrt(0.5 * a);
  double rest = 0, scale = 1;
  constexpr int kStarts = sizeof tables::kTemmeStarts / sizeof tables::kTemmeStarts[0];
  for (int k = 0; k + 1 < kStarts; ++k, scale /= a) {
    double c = 0;
    for (int n = tables::kTemmeStarts[k + 1] - 1; n >= tables::kTemmeStarts[k]; --n)
      c = c * eta + tables::kTemmeValues[n];
    const double term = c * scale;
    rest += term;
    if (k > 0 && fabs(term) < 1e-18) break;
  }
  rest *= exp(-a * gap) / sqrt(6.28318530717958647693 * a);
  return upper ? 0.5 * erfc(z) + rest : 0.5 * erfc(-z) - rest;
}

bool is_uniform(double a, double x) { return a >= 20 && fabs(x - a) <= 0.3 * a; }

// Compute P and Q if neither argument is at a limit.
double lower(double a, double x) {
  if (is_uniform(a, x)) return uniform(a, x, false);
  if (x <= a + 1) return p_series(a, x);
  return 1 - q_fraction(a, x);
}
double upper(double a, double x) {
  if (is_uniform(a, x)) return uniform(a, x, true);
  if (a <= 1 && x <= 1.5) return q_small(a, x);
  if (x <= a + 1) return 1 - p_series(a, x);
  return q_fraction(a, x);
}

}  // namespace

double gamma_p(double a, double x) noexcept {
  if (!(a >= 0 && x >= 0)) return NAN;
  if (a == 0) return x > 0 ? 1 : NAN;
  if (a == HUGE_VAL) return x == HUGE_VAL ? NAN : 0;
  if (x == 0) return 0;
  return x == HUGE_VAL ? 1 : lower(a, x);
}
double gamma_q(double a, double x) noexcept {
  if (!(a >= 0 && x >= 0)) return NAN;
  if (a == 0) return x > 0 ? 0 : NAN;
  if (a == HUGE_VAL) return x == HUGE_VAL ? NAN : 1;
  if (x == 0) return 1;
  return x == HUGE_VAL ? 0 : upper(a, x);
}

namespace {

// Computes the sum of (q + k)^-s over k >= 0, for q > 0: Euler and Maclaurin's tail (DLMF 25.11.43)
// from s + 12 on. For a large s the sum ends early: the rest is a few times the last term.
double zeta_of_positive(double s, double q) {
  double sum = 0;
  for (; q < s + 12; q += 1) {
    const double term = pow(q, -s);
    sum += term;
    if (term <= sum * 1e-19) return sum;
  }
  constexpr double kBernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                   5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
  const double power = pow(q, -s);
  double tail = q / (s - 1) + 0.5, factor = 0.5 * s / q;
  for (int k = 1; k <= 8; ++k) {
    tail += kBernoulli[k - 1] * factor;
    factor *= (s + 2 * k - 1) * (s + 2 * k) / ((2 * k + 1) * (2 * k + 2) * q * q);
  }
  return sum + power * tail;
}

}  // namespace

double zeta(double s, double q) noexcept {
  if (s == 1) return HUGE_VAL;
  if (!(s > 1) || isnan(q)) return NAN;
  if (q > 0) {
    if (s == HUGE_VAL) return q < 1 ? HUGE_VAL : q == 1 ? 1 : 0;
    return q == HUGE_VAL ? 0 : zeta_of_positive(s, q);
  }
  if (q == floor(q)) return HUGE_VAL;  // true for minus infinity, too
  if (s != floor(s)) return NAN;
  // Add the terms of negative bases one by one if they are few, else compute their sum as a
  // difference of two infinite sums.
  const double sign = fmod(s, 2) == 0 ? 1 : -1;
  const double above = q - floor(q), below = ceil(q) - q;
  if (q > -30) {
    double sum = zeta_of_positive(s, above) + sign * pow(below, -s);
    for (double base = q; base < -1; base += 1) sum += sign * pow(-base, -s);
    return sum;
  }
  return zeta_of_positive(s, above) +
         sign * (zeta_of_positive(s, below) - zeta_of_positive(s, 1 - q));
}

}  // namespace cograd::kernels::special
