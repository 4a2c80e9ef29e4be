// SPDX-License-Identifier: BSD-3-Clause
// Orthogonal polynomials. Chebyshev's of degree 7 and up use trigonometric and hyperbolic forms
// (DLMF 18.5), all others the recurrence in the degree (DLMF 18.9), which takes time proportional
// to it. NaN and overflow end a recurrence; Laguerre's of a degree above 2**22 returns NaN.
#include <math.h>

#include "kernels/elementwise/special_functions.h"

namespace cograd::kernels::special {

namespace {

constexpr double kRecurrence = 6;  // highest Chebyshev degree that uses the recurrence

bool below_zero(double n) { return !(n > -1); }

// Computes p_n by p_k+1 = 2 x p_k - p_k-1 from p_0 = 1 and p_1 = first.
double chebyshev(double x, double n, double first) {
  if (n == 0) return 1;
  double before = 1, now = first;
  for (double k = 1; k < n; ++k) {
    const double after = 2 * x * now - before;
    before = now;
    now = after;
  }
  return now;
}
constexpr double kLaguerreMost = 4194304;
constexpr double kLegendreRecurrence = 1048576;
double odd_sign(double n) { return fmod(n, 2) == 0 ? 1 : -1; }

// The four kinds for degree n >= 7, as functions of theta with x = cos(theta).
double t_of_angle(double angle, double n) { return cos(n * angle); }
double u_of_angle(double angle, double n) {
  const double s = sin(angle);
  return s == 0 ? n + 1 : sin((n + 1) * angle) / s;
}
double v_of_angle(double angle, double n) { return cos((n + 0.5) * angle) / cos(0.5 * angle); }
double w_of_angle(double angle, double n) {
  return angle == 0 ? 2 * n + 1 : sin((n + 0.5) * angle) / sin(0.5 * angle);
}
// The same, as hyperbolic functions of t with |x| = cosh(t).
double t_of_size(double t, double n) { return cosh(n * t); }
double u_of_size(double t, double n) { return t == 0 ? n + 1 : sinh((n + 1) * t) / sinh(t); }
double v_of_size(double t, double n) { return cosh((n + 0.5) * t) / cosh(0.5 * t); }
double w_of_size(double t, double n) {
  return t == 0 ? 2 * n + 1 : sinh((n + 0.5) * t) / sinh(0.5 * t);
}

using Form = double (*)(double, double);
// `angle` is used for |x| <= 1, else `size` with the t of |x|.
// Mirrored: p(-x) = sign * mirror(x).
struct Kind {
  Form angle, size, mirrored_angle, mirrored_size;
};
constexpr Kind kT{t_of_angle, t_of_size, t_of_angle, t_of_size};
constexpr Kind kU{u_of_angle, u_of_size, u_of_angle, u_of_size};
constexpr Kind kV{v_of_angle, v_of_size, w_of_angle, w_of_size};
constexpr Kind kW{w_of_angle, w_of_size, v_of_angle, v_of_size};

double evaluate(const Kind& kind, double x, double n) {
  const bool mirror = x < 0;
  const double size = fabs(x), sign = mirror ? odd_sign(n) : 1;
  if (size <= 1) return sign * (mirror ? kind.mirrored_angle : kind.angle)(acos(size), n);
  return sign * (mirror ? kind.mirrored_size : kind.size)(acosh(size), n);
}
// Evaluates at 2 x - 1, whose half angle is the angle of sqrt(x): a small x loses no digits.
double evaluate_shifted(const Kind& kind, double x, double n) {
  if (x < 0) {
    const double t = 2 * asinh(sqrt(-x));  // cosh(t) = 1 - 2 x
    return odd_sign(n) * kind.mirrored_size(t, n);
  }
  if (x > 1) return kind.size(2 * acosh(sqrt(x)), n);
  if (x < 0.5) return odd_sign(n) * kind.mirrored_angle(2 * asin(sqrt(x)), n);
  return kind.angle(2 * asin(sqrt(1 - x)), n);
}

double whole(double n) { return trunc(n); }

// Computes P_n for n > kLegendreRecurrence and |x| != 1, where the neglected terms are below 1e-12
// of the envelope: Szego, Orthogonal Polynomials, 8.21.17, with the next term in 1 / n.
double legendre_of_high_degree(double x, double n) {
  const double sign = x < 0 ? odd_sign(n) : 1, size = fabs(x), m = n + 0.5;
  if (isnan(x)) return x;
  if (size > 1) {
    const double t = acosh(size), power = m * t;
    return sign * sqrt(t / sinh(t)) * i0e(power) * exp(power);
  }
  const double t = acos(size);
  const double next = (t * size - sin(t)) / (8 * t * sin(t));
  return sign * sqrt(t / sin(t)) * (bessel_j0(m * t) + next * bessel_j1(m * t) / m);
}

}  // namespace

double chebyshev_t(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  return n <= kRecurrence ? chebyshev(x, n, x) : evaluate(kT, x, n);
}
double chebyshev_u(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  return n <= kRecurrence ? chebyshev(x, n, 2 * x) : evaluate(kU, x, n);
}
double chebyshev_v(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  return n <= kRecurrence ? chebyshev(x, n, 2 * x - 1) : evaluate(kV, x, n);
}
double chebyshev_w(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  return n <= kRecurrence ? chebyshev(x, n, 2 * x + 1) : evaluate(kW, x, n);
}
double shifted_chebyshev_t(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  const double y = 2 * x - 1;
  return n <= kRecurrence ? chebyshev(y, n, y) : evaluate_shifted(kT, x, n);
}
double shifted_chebyshev_u(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  const double y = 2 * x - 1;
  return n <= kRecurrence ? chebyshev(y, n, 2 * y) : evaluate_shifted(kU, x, n);
}
double shifted_chebyshev_v(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  const double y = 2 * x - 1;
  return n <= kRecurrence ? chebyshev(y, n, 2 * y - 1) : evaluate_shifted(kV, x, n);
}
double shifted_chebyshev_w(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  const double y = 2 * x - 1;
  return n <= kRecurrence ? chebyshev(y, n, 2 * y + 1) : evaluate_shifted(kW, x, n);
}

double hermite_h(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  double before = 0, now = 1;
  for (double k = 0; k < n && isfinite(now); ++k) {
    const double after = 2 * (x * now - k * before);
    before = now;
    now = after;
  }
  return now;
}
double hermite_he(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  double before = 0, now = 1;
  for (double k = 0; k < n && isfinite(now); ++k) {
    const double after = x * now - k * before;
    before = now;
    now = after;
  }
  return now;
}
namespace {

// Tabulates k / (k + 1): a division takes as long as the rest of a recurrence's step.
constexpr int kTabled = 64;
struct Parts {
  double of[kTabled];
};
constexpr Parts kParts = [] {
  Parts r{};
  for (int i = 0; i < kTabled; ++i) r.of[i] = i / (i + 1.0);
  return r;
}();

// Computes p_n from p_0 = 1 and p_k+1 = next(r) p_k - r p_k-1, where r = k / (k + 1).
template <class Next>
double recurrence(double n, Next&& next) {
  double before = 0, now = 1;
  if (n <= kTabled) {
    for (int k = 0; k < static_cast<int>(n); ++k) {
      const double after = next(kParts.of[k]) * now - kParts.of[k] * before;
      before = now;
      now = after;
    }
    if (isfinite(now)) return now;
    before = 0;
    now = 1;
  }
  for (double k = 0; k < n && isfinite(now); ++k) {
    const double part = k / (k + 1), after = next(part) * now - part * before;
    before = now;
    now = after;
  }
  return now;
}

}  // namespace

// For r = k / (k + 1): (2 k + 1) / (k + 1) is 1 + r, and 1 / (k + 1) is 1 - r.
double laguerre_l(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  if (x == 0) return 1;
  if (n > kLaguerreMost) return isnan(x) ? x : NAN;
  return recurrence(n, [&](double r) { return (1 + r) - x * (1 - r); });
}
double legendre_p(double x, double n) noexcept {
  if (below_zero(n)) return 0;
  n = whole(n);
  if (fabs(x) == 1) return x == 1 ? 1 : odd_sign(n);
  if (n > kLegendreRecurrence) return legendre_of_high_degree(x, n);
  return recurrence(n, [&](double r) { return (1 + r) * x; });
}

}  // namespace cograd::kernels::special
