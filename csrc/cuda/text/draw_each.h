// SPDX-License-Identifier: BSD-3-Clause
// Draws by rejection, by the rules of the CPU and from its words: each element has a stream of its
// own. -DTYPE= is the dtype. Threads of a warp wait for the one with the most rejections.
#include "cuda/args/random_args.h"
#include "exact.h"
#include "functions.h"
#include "kernels/random/draw_rules.h"

namespace cograd::device {

using T = TYPE;

class ElementStream {
 public:
  ElementStream(const EachDrawArgs& a, int64_t i)
      : seed_(a.base == nullptr ? a.seed : a.base[0]),
        block_((a.base == nullptr ? a.offset : a.base[1] + a.offset) + static_cast<uint64_t>(i)) {}
  double uniform() {
    const uint64_t high = word();
    const uint64_t bits = (high << 32 | word()) >> 12;
    return (static_cast<double>(static_cast<int64_t>(bits)) + 0.5) * 0x1p-52;
  }
  double open_uniform() { return uniform(); }
  double normal() {
    const double radius = ::sqrt(-2 * ::log(uniform()));
    return radius * ::cos(2 * kernels::kHalfTurn * uniform());
  }

 private:
  uint64_t word() {
    if (left_ == 0) {
      words_ = philox(seed_, block_, ++round_);
      left_ = 4;
    }
    --left_;
    return left_ == 0   ? words_.w[0]
           : left_ == 1 ? words_.w[1]
           : left_ == 2 ? words_.w[2]
                        : words_.w[3];
  }
  uint64_t seed_, block_;
  unsigned round_ = 0;
  int left_ = 0;
  PhiloxWords words_{};
};

constexpr double kSmallest = is_same<T, Half> ? 0x1p-14 : is_same<T, double> ? 0x1p-1022 : 0x1p-126;

// Computes out[i] = f(i, stream of i).
template <class F>
inline void draw_each(const EachDrawArgs& a, F&& f) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    ElementStream r(a, i);
    static_cast<T*>(a.out)[i] = rounded_to<T>(f(i, r));
  }
}
inline double first_of(const EachDrawArgs& a, int64_t i) {
  return static_cast<double>(load(static_cast<const T*>(a.a), i));
}

COGRAD_KERNEL(draw_gamma, EachDrawArgs, 256) {
  draw_each(a, [&](int64_t i, ElementStream& r) {
    const double v = kernels::gamma_draw(first_of(a, i), r);
    return v < kSmallest ? kSmallest : v;
  });
}
COGRAD_KERNEL(draw_poisson, EachDrawArgs, 256) {
  draw_each(a,
            [&](int64_t i, ElementStream& r) { return kernels::poisson_draw(first_of(a, i), r); });
}
COGRAD_KERNEL(draw_binomial, EachDrawArgs, 256) {
  draw_each(a, [&](int64_t i, ElementStream& r) {
    const double p = static_cast<double>(load(static_cast<const T*>(a.b), i));
    return kernels::binomial_draw(first_of(a, i), p, r);
  });
}
COGRAD_KERNEL(draw_von_mises, EachDrawArgs, 256) {
  draw_each(
      a, [&](int64_t i, ElementStream& r) { return kernels::von_mises_draw(first_of(a, i), r); });
}

// A thread has a row of n elements.
COGRAD_KERNEL(draw_dirichlet, EachDrawArgs, 256) {
  for (int64_t row = grid_index(); row < a.rows; row += grid_size()) {
    double* const logs = a.logs + row * a.n;
    double highest = -static_cast<double>(INFINITY), sum = 0;
    for (int64_t j = 0; j < a.n; ++j) {
      const double alpha = first_of(a, row * a.n + j);
      ElementStream r(a, row * a.n + j);
      logs[j] = alpha > 0 && alpha != HUGE_VAL ? kernels::log_gamma_draw(alpha, r) : ::log(alpha);
      if (highest < logs[j]) highest = logs[j];
    }
    for (int64_t j = 0; j < a.n; ++j) sum += logs[j] = ::exp(logs[j] - highest);
    for (int64_t j = 0; j < a.n; ++j) {
      const double v = logs[j] / sum;
      static_cast<T*>(a.out)[row * a.n + j] = rounded_to<T>(v < kSmallest ? kSmallest : v);
    }
  }
}

}  // namespace cograd::device
