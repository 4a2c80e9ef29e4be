// SPDX-License-Identifier: BSD-3-Clause
// Functions of the normal distribution.
#include <math.h>

#include "kernels/special_functions.h"
#include "kernels/special_tables.h"

namespace cograd::kernels::special {

namespace {
constexpr double kRootHalf = 0.70710678118654752440;
}  // namespace

double erfcx(double x) noexcept {
  if (x >= 0) {
    const double t = 1 / (1 + x);
    return t * tables::kErfcx(t);
  }
  if (x < -27) return HUGE_VAL;
  const double square = x * x, rest = fma(x, x, -square);
  return exp(square) * (1 + rest) * erfc(x);
}

double log_ndtr(double x) noexcept {
  if (x < -1) return log(0.5 * erfcx(-x * kRootHalf)) - 0.5 * x * x;
  return log1p(-0.5 * erfc(x * kRootHalf));
}

// Below 0.1 Halley's steps on log_ndtr from Abramowitz and Stegun 26.2.23; elsewhere on erf, whose
// argument 2 p - 1 is exact, from a closed form that is within 2e-3.
double ndtri(double p) noexcept {
  if (!(p > 0 && p < 1)) return p == 0 ? -HUGE_VAL : p == 1 ? HUGE_VAL : __builtin_nan("");
  const double tail = p < 0.5 ? p : 1 - p;
  if (tail < 0.1) {
    const double goal = log(tail), t = sqrt(-2 * goal);
    double x = (2.515517 + t * (0.802853 + t * 0.010328)) /
                   (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) -
               t;
    for (int step = 0; step < 3; ++step) {
      const double slope = 0.79788456080286535588 / erfcx(-x * kRootHalf);  // of log_ndtr
      const double newton = (log_ndtr(x) - goal) / slope;
      x -= newton / (1 - 0.5 * newton * (x + slope));  // its second derivative: -slope (x + slope)
    }
    return p < 0.5 ? x : -x;
  }
  const double v = 2 * p - 1, l = log1p(-v * v);
  const double t = 4.33074675078674 + 0.5 * l;
  double y = sqrt(fmax(0, sqrt(t * t - l / 0.147) - t));
  const double size = fabs(v);
  for (int step = 0; step < 3; ++step) {
    const double u = (erf(y) - size) / (1.12837916709551257390 * exp(-y * y));
    y -= u / (1 + y * u);
  }
  return copysign(y, v) * 1.41421356237309504880;
}

}  // namespace cograd::kernels::special
