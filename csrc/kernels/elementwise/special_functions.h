// SPDX-License-Identifier: BSD-3-Clause
// Special functions of doubles, compiled once for every CPU. The error is below 1e-12 of the value,
// and near zeros below 1e-12 of the function's amplitude. special_tables.h has the polynomials.
#pragma once

namespace cograd::kernels::special {

// Bessel functions of real x, DLMF 10; K and Y are NaN for negative x.
double bessel_j0(double x) noexcept;
double bessel_j1(double x) noexcept;
double bessel_y0(double x) noexcept;
double bessel_y1(double x) noexcept;
double i0(double x) noexcept;
double i1(double x) noexcept;
double i0e(double x) noexcept;  // exp(-|x|) I0(x)
double i1e(double x) noexcept;
double k0(double x) noexcept;
double k1(double x) noexcept;
double k0e(double x) noexcept;  // exp(x) K0(x)
double k1e(double x) noexcept;
double spherical_bessel_j0(double x) noexcept;
double airy_ai(double x) noexcept;

// Functions of the normal distribution, DLMF 7.
double erfcx(double x) noexcept;     // exp(x^2) erfc(x)
double log_ndtr(double x) noexcept;  // log of the distribution function
double ndtri(double p) noexcept;     // its inverse

// Incomplete gamma functions P(a, x) and Q(a, x), DLMF 8; Hurwitz' zeta function, DLMF 25.11.
double gamma_p(double a, double x) noexcept;
double gamma_q(double a, double x) noexcept;
double zeta(double s, double q) noexcept;

// Orthogonal polynomials, DLMF 18. The degree is truncated to an integer; for degrees below 0 the
// value is 0.
double chebyshev_t(double x, double n) noexcept;
double chebyshev_u(double x, double n) noexcept;
double chebyshev_v(double x, double n) noexcept;
double chebyshev_w(double x, double n) noexcept;
double shifted_chebyshev_t(double x, double n) noexcept;
double shifted_chebyshev_u(double x, double n) noexcept;
double shifted_chebyshev_v(double x, double n) noexcept;
double shifted_chebyshev_w(double x, double n) noexcept;
double hermite_h(double x, double n) noexcept;
double hermite_he(double x, double n) noexcept;
double laguerre_l(double x, double n) noexcept;
double legendre_p(double x, double n) noexcept;

}  // namespace cograd::kernels::special
