// SPDX-License-Identifier: BSD-3-Clause
// Functions of complex numbers. Those of complex64 compute in double, where neither squares nor
// products overflow; those of complex128 scale. Special values follow the host's library.
#pragma once
#include "functions.h"

namespace cograd::device {

// Computes name(v) of complex64 through complex128.
#define COGRAD_BY_WAY_OF_DOUBLE(name)                             \
  inline Complex<float> name(Complex<float> v) {                  \
    return Complex<float>(name(static_cast<Complex<double>>(v))); \
  }

template <class T>
inline bool isnan(Complex<T> v) {
  return isnan(v.re) | isnan(v.im);
}
template <class T>
inline bool isposinf(Complex<T> v) {
  return isposinf(v.re) | isposinf(v.im);
}
template <class T>
inline bool isneginf(Complex<T> v) {
  return isneginf(v.re) | isneginf(v.im);
}
template <class T>
inline bool isfinite(Complex<T> v) {
  return isfinite(v.re) & isfinite(v.im);
}
template <class T>
inline bool is_infinite(Complex<T> v) {
  return isposinf(abs(v.re)) | isposinf(abs(v.im));
}

// Multiplies a magnitude and a direction; a zero part of the direction stays zero.
inline Complex<double> along(double size, double cosine, double sine) {
  return {size * cosine, sine == 0 ? sine : size * sine};
}
inline Complex<double> exp(Complex<double> v) {
  if (v.im == 0) return {exp(v.re), v.im};
  if (!isfinite(v.im)) {
    if (isneginf(v.re)) return {0, copysign(0.0, v.im)};
    return {isposinf(v.re) ? v.re : v.im - v.im, v.im - v.im};
  }
  // Halving the exponent keeps e^re finite where only the product is.
  const double half = exp(0.5 * v.re), c = cos(v.im), s = sin(v.im);
  if (half == 0 || isposinf(half)) return along(half, c, s);
  if (abs(v.re) < 700) return along(exp(v.re), c, s);
  return {half * c * half, half * s * half};
}
inline Complex<double> exp2(Complex<double> v) { return exp(v * 0.69314718055994531); }
// Computes the real part as expm1(a) cos(b) - 2 sin(b / 2)^2, which avoids cancellation near 1.
inline Complex<double> expm1(Complex<double> v) {
  if (v.im == 0) return {expm1(v.re), v.im};
  if (!isfinite(v.im) || !(abs(v.re) < 700)) {
    const Complex<double> e = exp(v);
    return {e.re - 1, e.im};
  }
  const double half = sin(v.im * 0.5);
  return {expm1(v.re) * cos(v.im) - 2 * half * half, exp(v.re) * sin(v.im)};
}
// Computes log(w) for w = 1 + d. Near 1, |w|^2 is 1 + u with a small u computed without
// cancellation.
inline Complex<double> log_around_one(Complex<double> w, Complex<double> d) {
  const bool near = d.re * d.re + d.im * d.im < 0.25;
  const double size = hypot(w.re, w.im);
  double l = near ? 0.5 * log1p(d.re * (d.re + 2) + d.im * d.im) : log(size);
  if (isposinf(size) && isfinite(w)) l = log(hypot(0.5 * w.re, 0.5 * w.im)) + 0.69314718055994531;
  return {l, atan2(w.im, w.re)};
}
inline Complex<double> log(Complex<double> v) { return log_around_one(v, {v.re - 1, v.im}); }
inline Complex<double> log2(Complex<double> v) { return log(v) * 1.44269504088896341; }
inline Complex<double> log10(Complex<double> v) { return log(v) * 0.43429448190325183; }
inline Complex<double> log1p(Complex<double> v) { return log_around_one({v.re + 1, v.im}, v); }
// Computes the larger part from the sum of absolute values, and the other from the parts' product.
inline Complex<double> sqrt(Complex<double> v) {
  if (isposinf(abs(v.im))) return {abs(v.im), v.im};
  if (isneginf(v.re)) return {isnan(v.im) ? v.im : 0.0, isnan(v.im) ? v.re : copysign(-v.re, v.im)};
  if (isposinf(v.re)) return {v.re, isnan(v.im) ? v.im : copysign(0.0, v.im)};
  const double size = maximum(abs(v.re), abs(v.im));
  const double up = size < 1e-290 ? 0x1p108 : size > 1e300 ? 0x1p-8 : 1.0;
  const double down = size < 1e-290 ? 0x1p-54 : size > 1e300 ? 0x1p4 : 1.0;
  const double a = abs(v.re) * up, b = abs(v.im) * up;
  const double large = sqrt(0.5 * a + 0.5 * hypot(a, b));
  const double small = large == 0 ? b : b / (2 * large);
  const bool left = v.re < 0;
  return {(left ? small : large) * down, copysign((left ? large : small) * down, v.im)};
}
// Returns a power of two near 1 / |v|, so that products with scaled parts stay normal.
inline double scale_of(Complex<double> v) {
  const double size = maximum(abs(v.re), abs(v.im));
  return size > 0x1p500 ? 0x1p-600 : size < 0x1p-500 ? 0x1p600 : 1.0;
}
inline Complex<double> quotient(Complex<double> a, Complex<double> b) {
  const double s = scale_of(b);
  const Complex<double> scaled = a * s / (b * s);
  if (!isnan(scaled)) return scaled;
  if (is_infinite(a) && isfinite(b)) {  // an infinity divided by a number is one
    const double re = isposinf(abs(a.re)) ? copysign(1.0, a.re) : copysign(0.0, a.re);
    const double im = isposinf(abs(a.im)) ? copysign(1.0, a.im) : copysign(0.0, a.im);
    return {HUGE_VAL * (re * b.re + im * b.im), HUGE_VAL * (im * b.re - re * b.im)};
  }
  if (is_infinite(b) && isfinite(a)) {
    const double re = isposinf(abs(b.re)) ? copysign(1.0, b.re) : copysign(0.0, b.re);
    const double im = isposinf(abs(b.im)) ? copysign(1.0, b.im) : copysign(0.0, b.im);
    return {0 * (a.re * re + a.im * im), 0 * (a.im * re - a.re * im)};
  }
  return scaled;
}
inline Complex<double> reciprocal_of(Complex<double> v) {
  if (v == Complex<double>(0)) return Complex<double>(1.0) / v;
  return quotient({1, 0}, v);
}
inline Complex<double> rsqrt(Complex<double> v) { return reciprocal_of(sqrt(v)); }

// cosh(v) and sinh(v) as e * 2^-k, from one exponential.
struct Hyperbolic {
  double even, odd;
};
inline Hyperbolic hyperbolic(double v) {
  const double m = expm1(abs(v)), q = m / (m + 1);
  if (isposinf(m)) return {m, copysign(m, v)};
  return {1 + 0.5 * m * q, copysign(0.5 * (m + q), v)};
}
// Computes {cosh(a) c, sinh(a) s}. Past 709 the factors overflow before the products do.
inline Complex<double> hyperbolic_times(double a, double c, double s) {
  if (abs(a) > 700 && isfinite(a)) {
    const double e = exp(0.5 * abs(a));
    return {0.5 * e * c * e, copysign(0.5 * e, a) * s * e};
  }
  const Hyperbolic h = hyperbolic(a);
  return {h.even * c, h.odd == 0 || s == 0 ? copysign(0.0, h.odd) * copysign(1.0, s) : h.odd * s};
}
inline Complex<double> cosh(Complex<double> v) {
  const Complex<double> r = hyperbolic_times(v.re, cos(v.im), sin(v.im));
  if (v.im == 0) return {cosh(v.re), copysign(0.0, v.re) * copysign(1.0, v.im)};
  return r;
}
inline Complex<double> sinh(Complex<double> v) {
  if (v.im == 0) return {sinh(v.re), v.im};
  if (v.re == 0 && !isfinite(v.im)) return {v.re, v.im - v.im};
  if (abs(v.re) > 700 && isfinite(v.re)) {
    const double e = exp(0.5 * abs(v.re));
    return {copysign(0.5 * e, v.re) * cos(v.im) * e, 0.5 * e * sin(v.im) * e};
  }
  const Hyperbolic h = hyperbolic(v.re);
  return {h.odd == 0 ? h.odd : h.odd * cos(v.im), h.even * sin(v.im)};
}
inline Complex<double> sin(Complex<double> v) {
  const Complex<double> r = sinh(Complex<double>(-v.im, v.re));
  return {r.im, -r.re};
}
inline Complex<double> cos(Complex<double> v) { return cosh(Complex<double>(-v.im, v.re)); }
// Kahan's tanh: t = tan(im), b = sec(im)^2, s = sinh(re).
inline Complex<double> tanh(Complex<double> v) {
  if (v.im == 0) return {tanh(v.re), v.im};
  if (!isfinite(v.im) && isfinite(v.re)) return {v.im - v.im, v.im - v.im};
  if (abs(v.re) > 22) {
    const double e = exp(-abs(v.re));
    const double odd = isfinite(v.im) ? sin(v.im) * cos(v.im) : copysign(0.0, v.im);
    return {copysign(1.0, v.re), 4 * odd * e * e};
  }
  const double t = tan(v.im), b = 1 + t * t, s = sinh(v.re), r = sqrt(1 + s * s);
  if (isposinf(abs(t))) return {r / s, 1 / t};
  const double d = 1 + b * s * s;
  return {b * r * s / d, t / d};
}
inline Complex<double> tan(Complex<double> v) {
  const Complex<double> r = tanh(Complex<double>(-v.im, v.re));
  return {r.im, -r.re};
}
// Uses exp(v) or exp(-v), whichever has absolute value at most 1.
inline Complex<double> sigmoid(Complex<double> v) {
  const bool left = v.re < 0;
  const Complex<double> e = exp(Complex<double>(-abs(v.re), left ? v.im : -v.im));
  return quotient({left ? e.re : 1, left ? e.im : 0}, Complex<double>(1.0) + e);
}
inline Complex<double> silu(Complex<double> v) { return v * sigmoid(v); }
// Returns 0 for 0 to a power with a positive real part, and 1 for any number to the power 0.
inline Complex<double> pow(Complex<double> v, Complex<double> w) {
  if (w == Complex<double>(0)) return {1, 0};
  if (v == Complex<double>(0) && w.re > 0) return {0, 0};
  const Complex<double> l = log(v);
  const double size = exp(w.re * l.re - w.im * l.im), angle = w.re * l.im + w.im * l.re;
  return {size * cos(angle), size * sin(angle)};
}

COGRAD_BY_WAY_OF_DOUBLE(exp)
COGRAD_BY_WAY_OF_DOUBLE(exp2)
COGRAD_BY_WAY_OF_DOUBLE(expm1)
COGRAD_BY_WAY_OF_DOUBLE(log)
COGRAD_BY_WAY_OF_DOUBLE(log2)
COGRAD_BY_WAY_OF_DOUBLE(log10)
COGRAD_BY_WAY_OF_DOUBLE(log1p)
COGRAD_BY_WAY_OF_DOUBLE(sqrt)
COGRAD_BY_WAY_OF_DOUBLE(rsqrt)
COGRAD_BY_WAY_OF_DOUBLE(cosh)
COGRAD_BY_WAY_OF_DOUBLE(sinh)
COGRAD_BY_WAY_OF_DOUBLE(cos)
COGRAD_BY_WAY_OF_DOUBLE(sin)
COGRAD_BY_WAY_OF_DOUBLE(tanh)
COGRAD_BY_WAY_OF_DOUBLE(tan)
COGRAD_BY_WAY_OF_DOUBLE(sigmoid)
COGRAD_BY_WAY_OF_DOUBLE(silu)
COGRAD_BY_WAY_OF_DOUBLE(reciprocal_of)
inline Complex<float> pow(Complex<float> v, Complex<float> w) {
  return Complex<float>(pow(static_cast<Complex<double>>(v), static_cast<Complex<double>>(w)));
}
inline Complex<float> quotient(Complex<float> a, Complex<float> b) {
  return Complex<float>(quotient(static_cast<Complex<double>>(a), static_cast<Complex<double>>(b)));
}

template <class T>
inline Complex<T> repaired(Complex<T> v, Complex<T> nan, Complex<T> posinf, Complex<T> neginf) {
  return {repaired(v.re, nan.re, posinf.re, neginf.re),
          repaired(v.im, nan.re, posinf.re, neginf.re)};
}
template <class T>
inline bool below_half(Complex<T> v) {
  return v.re * v.re + v.im * v.im < T(0.25);
}
template <class T>
inline bool has_positive_part(Complex<T> v) {
  return v.re >= T(0);
}

template <class T>
inline T absolute(Complex<T> v) {
  return hypot(v.re, v.im);
}
template <class T>
inline T angle(Complex<T> v) {
  return atan2(v.im, v.re);
}
template <class T>
inline Complex<T> sgn(Complex<T> v) {
  // Scale, so that the absolute value neither overflows nor is subnormal.
  constexpr T kFar = sizeof(T) == 4 ? T(0x1p60) : T(0x1p500);
  const T a = abs(v.re), b = abs(v.im), large = a < b ? b : a;
  const T scale = large > kFar ? T(1) / kFar : large < T(1) / kFar ? kFar : T(1);
  const Complex<T> u = v * scale;
  const T size = hypot(u.re, u.im);
  return size == T(0) ? Complex<T>(T(0)) : Complex<T>(u.re / size, u.im / size);
}

}  // namespace cograd::device
