// SPDX-License-Identifier: BSD-3-Clause
// Functions of the normal distribution.
#include <math.h>

#include "kernels/elementwise/special_functions.h"
#include "kernels/elementwise/special_tables.h"

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

namespace {

// Computes a quotient of polynomials of degree 7; coefficients start with the constant. Sums even
// and odd powers separately.
double ratio(const double (&over)[8], const double (&under)[8], double x) {
  const double z = x * x;
  const auto sum = [&](const double (&c)[8]) {
    const double even = ((c[6] * z + c[4]) * z + c[2]) * z + c[0];
    const double odd = ((c[7] * z + c[5]) * z + c[3]) * z + c[1];
    return odd * x + even;
  };
  return sum(over) / sum(under);
}

}  // namespace

// Algorithm AS 241, PPND16 (M. J. Wichura, The percentage points of the normal distribution, 1988).
double ndtri(double p) noexcept {
  if (!(p > 0 && p < 1)) return p == 0 ? -HUGE_VAL : p == 1 ? HUGE_VAL : NAN;
  constexpr double kMiddle[] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                3.3430575583588128105e+4, 2.5090809287301226727e+3};
  constexpr double kUnderMiddle[] = {1,
                                     4.2313330701600911252e+1,
                                     6.8718700749205790830e+2,
                                     5.3941960214247511077e+3,
                                     2.1213794301586595867e+4,
                                     3.9307895800092710610e+4,
                                     2.8729085735721942674e+4,
                                     5.2264952788528545610e+3};
  constexpr double kTail[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                              5.76949722146069140550e0,  3.64784832476320460504e0,
                              1.27045825245236838258e0,  2.41780725177450611770e-1,
                              2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr double kUnderTail[] = {1,
                                   2.05319162663775882187e0,
                                   1.67638483018380384940e0,
                                   6.89767334985100004550e-1,
                                   1.48103976427480074590e-1,
                                   1.51986665636164571966e-2,
                                   5.47593808499534494600e-4,
                                   1.05075007164441684324e-9};
  constexpr double kFar[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                             1.78482653991729133580e0,  2.96560571828504891230e-1,
                             2.65321895265761230930e-2, 1.24266094738807843860e-3,
                             2.71155556874348757815e-5, 2.01033439929228813265e-7};
  constexpr double kUnderFar[] = {1,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (fabs(q) <= 0.425) return q * ratio(kMiddle, kUnderMiddle, 0.180625 - q * q);
  const double r = sqrt(-log(q < 0 ? p : 1 - p));
  const double x = r <= 5 ? ratio(kTail, kUnderTail, r - 1.6) : ratio(kFar, kUnderFar, r - 5);
  return copysign(x, q);
}

}  // namespace cograd::kernels::special
