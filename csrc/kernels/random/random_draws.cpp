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
#include "kernels/random/draw_rules.h"
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

// The smallest normal number.
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
