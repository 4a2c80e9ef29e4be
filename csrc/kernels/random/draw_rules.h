// SPDX-License-Identifier: BSD-3-Clause
// Draws by rejection, for the CPU and for the text of GPUs' kernels. R draws from a stream:
// uniform() in (0, 1), open_uniform(), which is never 0, and normal().
#pragma once
#include <math.h>

namespace cograd::kernels {
namespace {

inline constexpr double kHalfTurn = 3.14159265358979323846;

inline double between(double low, double v, double high) noexcept {
  return v < low ? low : v > high ? high : v;
}

// Returns log(n!) minus Stirling's (n + 1/2) log(n + 1) - (n + 1) + log(2 pi) / 2.
inline double stirling_tail(double n) noexcept {
  static constexpr double kSmall[] = {
      0.081061466795327258, 0.041340695955409294, 0.027677925684998339, 0.020790672103765093,
      0.016644691189821193, 0.013876128823070748, 0.011896709945891770, 0.010411265261972096,
      0.009255462182712733, 0.008330563433362871};
  if (n < 10) return kSmall[static_cast<int>(n)];
  const double z = 1 / (n + 1), zz = z * z;
  return (1.0 / 12 - (1.0 / 360 - zz / 1260) * zz) * z;
}

// Draws the logarithm of a gamma variable by Marsaglia and Tsang, "A simple method for generating
// gamma variables" (2000); for alpha < 1 with their boost, in logarithms because its power would
// underflow.
template <class R>
double log_gamma_draw(double alpha, R& r) noexcept {
  double boost = 0;
  if (alpha < 1) {
    boost = ::log(r.open_uniform()) / alpha;
    alpha += 1;
  }
  const double d = alpha - 1.0 / 3, c = 1 / ::sqrt(9 * d);
  for (;;) {
    const double x = r.normal();
    const double step = c * x;
    if (step <= -1) continue;
    const double rest = step * (3 + step * (3 + step));  // (1 + step)^3 - 1
    const double u = r.open_uniform(), xx = x * x;
    if (u < 1 - 0.0331 * xx * xx || ::log(u) < 0.5 * xx + d * (::log1p(rest) - rest))
      return boost + ::log(d) + ::log1p(rest);
  }
}

template <class R>
double gamma_draw(double alpha, R& r) noexcept {
  if (!(alpha >= 0)) return static_cast<double>(NAN);
  if (alpha == 0 || alpha == HUGE_VAL) return alpha;
  return ::exp(log_gamma_draw(alpha, r));
}

// Draws by multiplied uniforms for small rates, else by PTRS of W. Hormann, "The transformed
// rejection method for generating Poisson random variables" (1993).
template <class R>
double poisson_draw(double rate, R& r) noexcept {
  if (!(rate > 0)) return rate == 0 ? 0 : static_cast<double>(NAN);
  if (rate == HUGE_VAL) return rate;
  if (rate < 10) {
    const double limit = ::exp(-rate);
    double k = 0;
    for (double product = r.uniform(); product > limit; product *= r.uniform()) k += 1;
    return k;
  }
  const double b = 0.931 + 2.53 * ::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), good = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = r.uniform() - 0.5, v = r.uniform();
    const double us = 0.5 - ::fabs(u);
    const double k = ::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= good) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    // Compute the log of rate^k exp(-rate) / k! from differences of the large terms.
    const double above = k + 1 - rate;
    const double mass = (k + 0.5) * -::log1p(above / rate) + above -
                        0.5 * ::log(2 * kHalfTurn * rate) - stirling_tail(k);
    if (::log(v * inverse_alpha / (a / (us * us) + b)) <= mass) return k;
  }
}

// Draws by sums of geometric gaps if few successes are expected, else by BTRS of W. Hormann, "The
// generation of binomial random variates" (1993). p must be in (0, 1/2].
template <class R>
double binomial_core(double n, double p, R& r) noexcept {
  if (n * p < 10) {
    const double scale = 1 / ::log1p(-p);
    double k = 0, trials = 0;
    for (;;) {
      trials += ::ceil(::log(r.uniform()) * scale);
      if (!(trials <= n)) return k;
      k += 1;
    }
  }
  const double spread = ::sqrt(n * p * (1 - p));
  const double b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double centre = n * p + 0.5, good = 0.92 - 4.2 / b;
  const double odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * spread;
  const double mode = ::floor((n + 1) * p);
  for (;;) {
    const double u = r.uniform() - 0.5, v = r.uniform();
    const double us = 0.5 - ::fabs(u);
    const double k = ::floor((2 * a / us + b) * u + centre);
    if (us >= 0.07 && v <= good) return k;
    if (k < 0 || k > n) continue;
    // Compute the log of mass(k) / mass(mode).
    const double ratio = (mode + 0.5) * ::log((mode + 1) / (odds * (n - mode + 1))) +
                         (n + 1) * ::log1p((k - mode) / (n - k + 1)) +
                         (k + 0.5) * ::log(odds * (n - k + 1) / (k + 1)) + stirling_tail(mode) +
                         stirling_tail(n - mode) - stirling_tail(k) - stirling_tail(n - k);
    if (::log(v * alpha / (a / (us * us) + b)) <= ratio) return k;
  }
}

template <class R>
double binomial_draw(double count, double p, R& r) noexcept {
  if (count != count || p != p) return static_cast<double>(NAN);
  const double n = ::floor(count);
  if (n < 1 || p <= 0) return 0;
  if (p >= 1 || n == HUGE_VAL) return n;
  return p <= 0.5 ? binomial_core(n, p, r) : n - binomial_core(n, 1 - p, r);
}

// Draws by D. J. Best and N. I. Fisher, "Efficient simulation of the von Mises distribution"
// (1979).
template <class R>
double von_mises_draw(double kappa, R& r) noexcept {
  if (!(kappa >= 0)) return static_cast<double>(NAN);
  if (kappa < 1e-8) return kHalfTurn * (2 * r.uniform() - 1);
  if (kappa > 1e6) return between(-kHalfTurn, r.normal() / ::sqrt(kappa), kHalfTurn);
  double s = 1 / kappa;
  if (kappa > 1e-5) {
    const double tau = 1 + ::sqrt(1 + 4 * kappa * kappa);
    const double rho = (tau - ::sqrt(2 * tau)) / (2 * kappa);
    s = (1 + rho * rho) / (2 * rho);
  }
  for (;;) {
    const double z = ::cos(kHalfTurn * r.uniform());
    const double f = (1 + s * z) / (s + z), c = kappa * (s - f);
    const double u = r.uniform();
    if (c * (2 - c) <= u && ::log(c / u) + 1 - c < 0) continue;
    return ::copysign(::acos(between(-1, f, 1)), r.uniform() - 0.5);
  }
}

}  // namespace
}  // namespace cograd::kernels
