// SPDX-License-Identifier: BSD-3-Clause
// Draws by rejection, from one stream of Philox words per element or from torch's single stream.
// Both consume their numbers in the same order, which is torch's.
#include "kernels/random/random_draws.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "kernels/core/floating.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

namespace {

// The stream of one element. The third word of the counter is 0 in fills; here it counts the
// element's blocks.
class Stream {
 public:
  Stream(PhiloxState s, int64_t element) noexcept
      : seed_(s.seed), block_(s.offset + static_cast<uint64_t>(element)) {}
  // Draws a uniform number in (0, 1) with 52 bits.
  double uniform() noexcept {
    const uint64_t high = word();
    const uint64_t bits = (high << 32 | word()) >> 12;
    return (static_cast<double>(bits) + 0.5) * 0x1p-52;
  }
  double open_uniform() noexcept { return uniform(); }
  double normal() noexcept {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  uint32_t word() noexcept {
    if (left_ == 0) {
      words_ = philox4x32(
          {static_cast<uint32_t>(block_), static_cast<uint32_t>(block_ >> 32), ++round_, 0},
          {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
      left_ = 4;
    }
    return words_[static_cast<size_t>(--left_)];
  }
  uint64_t seed_, block_;
  uint32_t round_ = 0;
  int left_ = 0;
  std::array<uint32_t, 4> words_{};
};

// The stream that all elements share; open_uniform is never 0.
class SharedStream {
 public:
  explicit SharedStream(MtStream& s) noexcept : words_(s) {}
  double uniform() noexcept { return words_.uniform(); }
  double open_uniform() noexcept { return 1 - words_.uniform(); }
  double normal() noexcept { return words_.normal(); }

 private:
  MtStream& words_;
};

// Returns log(n!) minus Stirling's (n + 1/2) log(n + 1) - (n + 1) + log(2 pi) / 2.
double stirling_tail(double n) noexcept {
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
    boost = std::log(r.open_uniform()) / alpha;
    alpha += 1;
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = r.normal();
    const double step = c * x;
    if (step <= -1) continue;
    const double rest = step * (3 + step * (3 + step));  // (1 + step)^3 - 1
    const double u = r.open_uniform(), xx = x * x;
    if (u < 1 - 0.0331 * xx * xx || std::log(u) < 0.5 * xx + d * (std::log1p(rest) - rest))
      return boost + std::log(d) + std::log1p(rest);
  }
}

template <class R>
double gamma_draw(double alpha, R& r) noexcept {
  if (!(alpha >= 0)) return std::numeric_limits<double>::quiet_NaN();
  if (alpha == 0 || std::isinf(alpha)) return alpha;
  return std::exp(log_gamma_draw(alpha, r));
}

// Draws by multiplied uniforms for small rates, else by PTRS of W. Hormann, "The transformed
// rejection method for generating Poisson random variables" (1993).
template <class R>
double poisson_draw(double rate, R& r) noexcept {
  if (!(rate > 0)) return rate == 0 ? 0 : std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(rate)) return rate;
  if (rate < 10) {
    const double limit = std::exp(-rate);
    double k = 0;
    for (double product = r.uniform(); product > limit; product *= r.uniform()) k += 1;
    return k;
  }
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), good = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = r.uniform() - 0.5, v = r.uniform();
    const double us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= good) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    // Compute the log of rate^k exp(-rate) / k! from differences of the large terms.
    const double above = k + 1 - rate;
    const double mass = (k + 0.5) * -std::log1p(above / rate) + above -
                        0.5 * std::log(2 * std::numbers::pi * rate) - stirling_tail(k);
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <= mass) return k;
  }
}

// Draws by sums of geometric gaps if few successes are expected, else by BTRS of W. Hormann, "The
// generation of binomial random variates" (1993). p must be in (0, 1/2].
template <class R>
double binomial_core(double n, double p, R& r) noexcept {
  if (n * p < 10) {
    const double scale = 1 / std::log1p(-p);
    double k = 0, trials = 0;
    for (;;) {
      trials += std::ceil(std::log(r.uniform()) * scale);
      if (!(trials <= n)) return k;
      k += 1;
    }
  }
  const double spread = std::sqrt(n * p * (1 - p));
  const double b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double centre = n * p + 0.5, good = 0.92 - 4.2 / b;
  const double odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * spread;
  const double mode = std::floor((n + 1) * p);
  for (;;) {
    const double u = r.uniform() - 0.5, v = r.uniform();
    const double us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + centre);
    if (us >= 0.07 && v <= good) return k;
    if (k < 0 || k > n) continue;
    // Compute the log of mass(k) / mass(mode).
    const double ratio = (mode + 0.5) * std::log((mode + 1) / (odds * (n - mode + 1))) +
                         (n + 1) * std::log1p((k - mode) / (n - k + 1)) +
                         (k + 0.5) * std::log(odds * (n - k + 1) / (k + 1)) + stirling_tail(mode) +
                         stirling_tail(n - mode) - stirling_tail(k) - stirling_tail(n - k);
    if (std::log(v * alpha / (a / (us * us) + b)) <= ratio) return k;
  }
}

template <class R>
double binomial_draw(double count, double p, R& r) noexcept {
  if (std::isnan(count) || std::isnan(p)) return std::numeric_limits<double>::quiet_NaN();
  const double n = std::floor(count);
  if (n < 1 || p <= 0) return 0;
  if (p >= 1 || std::isinf(n)) return n;
  return p <= 0.5 ? binomial_core(n, p, r) : n - binomial_core(n, 1 - p, r);
}

// Draws by D. J. Best and N. I. Fisher, "Efficient simulation of the von Mises distribution"
// (1979).
template <class R>
double von_mises_draw(double kappa, R& r) noexcept {
  if (!(kappa >= 0)) return std::numeric_limits<double>::quiet_NaN();
  if (kappa < 1e-8) return std::numbers::pi * (2 * r.uniform() - 1);
  if (kappa > 1e6)
    return std::clamp(r.normal() / std::sqrt(kappa), -std::numbers::pi, std::numbers::pi);
  double s = 1 / kappa;
  if (kappa > 1e-5) {
    const double tau = 1 + std::sqrt(1 + 4 * kappa * kappa);
    const double rho = (tau - std::sqrt(2 * tau)) / (2 * kappa);
    s = (1 + rho * rho) / (2 * rho);
  }
  for (;;) {
    const double z = std::cos(std::numbers::pi * r.uniform());
    const double f = (1 + s * z) / (s + z), c = kappa * (s - f);
    const double u = r.uniform();
    if (c * (2 - c) <= u && std::log(c / u) + 1 - c < 0) continue;
    return std::copysign(std::acos(std::clamp(f, -1.0, 1.0)), r.uniform() - 0.5);
  }
}

template <class T>
double smallest() {
  if constexpr (std::is_same_v<T, Half>)
    return 0x1p-14;
  else if constexpr (std::is_same_v<T, double>)
    return std::numeric_limits<double>::min();
  else
    return static_cast<double>(std::numeric_limits<float>::min());
}

constexpr int64_t kGrain = 256;

// Computes out[i] = f(i, stream of i) as T.
template <class T, class F>
void for_elements(void* out, int64_t n, const DrawSource& source, const F& f) {
  T* to = static_cast<T*>(out);
  if (source.torch != nullptr) {
    SharedStream r(*source.torch);
    for (int64_t i = 0; i < n; ++i) to[i] = rounded<T>(f(i, r));
    return;
  }
  const PhiloxState s = source.philox;
  HeavyScope heavy(n * 16);
  parallel_for(0, n, kGrain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      Stream r(s, lo);
      to[lo] = rounded<T>(f(lo, r));
    }
  });
}

// draw(j, alpha of j) returns the logarithm of a gamma variable.
template <class T, class F>
void dirichlet_row(const T* alpha, T* out, int64_t size, std::vector<double>& logs, const F& draw) {
  double highest = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < size; ++j) {
    const auto a = static_cast<double>(alpha[j]);
    double& v = logs[static_cast<size_t>(j)];
    v = a > 0 && !std::isinf(a) ? draw(j, a) : std::log(a);
    highest = std::max(highest, v);
  }
  double sum = 0;
  for (double& v : logs) sum += v = std::exp(v - highest);
  for (int64_t j = 0; j < size; ++j)
    out[j] = rounded<T>(std::max(logs[static_cast<size_t>(j)] / sum, smallest<T>()));
}

}  // namespace

void draw_gamma(DType t, void* out, const void* alpha, int64_t n, const DrawSource& s) {
  COGRAD_SLOT(draw_gamma, t, out, alpha, n, s);
  dispatch_floating(t, [&]<class T>(TypeTag<T>) {
    const T* a = static_cast<const T*>(alpha);
    for_elements<T>(out, n, s, [a](int64_t i, auto& r) {
      const double v = gamma_draw(static_cast<double>(a[i]), r);
      return v < smallest<T>() ? smallest<T>() : v;
    });
  });
}

void draw_dirichlet(DType t, void* out, const void* alpha, int64_t rows, int64_t size,
                    const DrawSource& source) {
  COGRAD_SLOT(draw_dirichlet, t, out, alpha, rows, size, source);
  if (size == 0) return;
  dispatch_floating(t, [&]<class T>(TypeTag<T>) {
    if (source.torch != nullptr) {
      SharedStream r(*source.torch);
      std::vector<double> logs(static_cast<size_t>(size));
      for (int64_t at = 0; at < rows * size; at += size)
        dirichlet_row(static_cast<const T*>(alpha) + at, static_cast<T*>(out) + at, size, logs,
                      [&](int64_t, double a) { return log_gamma_draw(a, r); });
      return;
    }
    const PhiloxState s = source.philox;
    HeavyScope heavy(rows * size * 16);
    parallel_for(0, rows, std::max<int64_t>(1, kGrain / size), [&](int64_t lo, int64_t hi) {
      std::vector<double> logs(static_cast<size_t>(size));
      for (; lo < hi; ++lo) {
        const int64_t at = lo * size;
        dirichlet_row(static_cast<const T*>(alpha) + at, static_cast<T*>(out) + at, size, logs,
                      [&](int64_t j, double a) {
                        Stream r(s, at + j);
                        return log_gamma_draw(a, r);
                      });
      }
    });
  });
}

void draw_poisson(DType t, void* out, const void* rate, int64_t n, const DrawSource& s) {
  COGRAD_SLOT(draw_poisson, t, out, rate, n, s);
  dispatch_floating(t, [&]<class T>(TypeTag<T>) {
    const T* mean = static_cast<const T*>(rate);
    for_elements<T>(out, n, s, [mean](int64_t i, auto& r) {
      return poisson_draw(static_cast<double>(mean[i]), r);
    });
  });
}

void draw_binomial(DType t, void* out, const void* count, const void* chance, int64_t n,
                   const DrawSource& s) {
  COGRAD_SLOT(draw_binomial, t, out, count, chance, n, s);
  dispatch_floating(t, [&]<class T>(TypeTag<T>) {
    const T* trials = static_cast<const T*>(count);
    const T* p = static_cast<const T*>(chance);
    for_elements<T>(out, n, s, [=](int64_t i, auto& r) {
      return binomial_draw(static_cast<double>(trials[i]), static_cast<double>(p[i]), r);
    });
  });
}

void draw_von_mises(DType t, void* out, const void* concentration, int64_t n, const DrawSource& s) {
  COGRAD_SLOT(draw_von_mises, t, out, concentration, n, s);
  dispatch_floating(t, [&]<class T>(TypeTag<T>) {
    const T* kappa = static_cast<const T*>(concentration);
    for_elements<T>(out, n, s, [kappa](int64_t i, auto& r) {
      return von_mises_draw(static_cast<double>(kappa[i]), r);
    });
  });
}

}  // namespace cograd::kernels
