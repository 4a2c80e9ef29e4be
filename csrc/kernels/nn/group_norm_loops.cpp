// SPDX-License-Identifier: BSD-3-Clause
// Sums and affine maps of segments; compiled once per instruction set.
#include "kernels/nn/group_norm_loops.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/core/floating.h"

namespace cograd::kernels::COGRAD_ISA {

GroupNormLoops group_norm_loops();

namespace {

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

constexpr int kLanes = 64;        // number of sums side by side
constexpr int64_t kBlock = 4096;  // elements that are summed in the narrow type

// Returns the sum over i < n of f(i); adds in A within blocks and in double across blocks.
template <class A, class F>
inline double blocked_sum(int64_t n, F f) {
  double total = 0;
  for (int64_t from = 0; from < n; from += kBlock) {
    const int64_t to = std::min(n, from + kBlock), whole = from + (to - from) / kLanes * kLanes;
    A lanes[kLanes] = {};
    for (int64_t i = from; i < whole; i += kLanes)
      for (int k = 0; k < kLanes; ++k) lanes[k] += f(i + k);
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    double rest = static_cast<double>(lanes[0]);
    for (int64_t i = whole; i < to; ++i) rest += static_cast<double>(f(i));
    total += rest;
  }
  return total;
}

template <class T>
struct Coefficients {
  const T* weight;
  const T* bias;
  double w(int64_t i) const {
    return weight == nullptr ? 1 : static_cast<double>(static_cast<Wide<T>>(weight[i]));
  }
  double b(int64_t i) const {
    return bias == nullptr ? 0 : static_cast<double>(static_cast<Wide<T>>(bias[i]));
  }
};

template <class T>
void forward_group(const NormGroups& n, int64_t g, const T* x, Coefficients<T> c, double eps,
                   bool given, T* y, Wide<T>* mean, Wide<T>* rstd, Wide<T>* var) {
  using A = Wide<T>;
  const int64_t at = n.first(g);
  if (!given) {
    const double count = static_cast<double>(n.segments) * static_cast<double>(n.length);
    double sum = 0, squares = 0;
    for (int64_t s = 0; s < n.segments; ++s) {
      const T* p = x + at + s * n.step;
      sum += blocked_sum<A>(n.length, [p](int64_t i) { return static_cast<A>(p[i]); });
    }
    const A center = static_cast<A>(sum / count);
    for (int64_t s = 0; s < n.segments; ++s) {
      const T* p = x + at + s * n.step;
      squares += blocked_sum<A>(n.length, [p, center](int64_t i) {
        const A d = static_cast<A>(p[i]) - center;
        return d * d;
      });
    }
    mean[g] = center;
    rstd[g] = static_cast<A>(1 / std::sqrt(squares / count + eps));
    if (var != nullptr) var[g] = static_cast<A>(squares / count);
  }
  for (int64_t s = 0; s < n.segments; ++s) {
    const double r = static_cast<double>(rstd[g]) * c.w(n.weight(g, s));
    const A a = static_cast<A>(r), m = mean[g], b = static_cast<A>(c.b(n.weight(g, s)));
    const T* __restrict p = x + at + s * n.step;
    T* __restrict q = y + at + s * n.step;
    for (int64_t i = 0; i < n.length; ++i)
      q[i] = static_cast<T>((static_cast<A>(p[i]) - m) * a + b);
  }
}

template <class T>
void backward_group(const NormGroups& n, int64_t g, const T* gy, const T* x, const Wide<T>* mean,
                    const Wide<T>* rstd, Coefficients<T> c, bool given, T* gx, double* sums,
                    double* dots) {
  using A = Wide<T>;
  const int64_t at = n.first(g);
  const A m = mean[g];
  const double r = static_cast<double>(rstd[g]);
  double sum = 0, dot = 0;
  for (int64_t s = 0; s < n.segments; ++s) {
    const T* p = x + at + s * n.step;
    const T* q = gy + at + s * n.step;
    const double a = blocked_sum<A>(n.length, [q](int64_t i) { return static_cast<A>(q[i]); });
    const double b = r * blocked_sum<A>(n.length, [p, q, m](int64_t i) {
                       return static_cast<A>(q[i]) * (static_cast<A>(p[i]) - m);
                     });
    sums[g * n.segments + s] = a;
    dots[g * n.segments + s] = b;
    sum += a * c.w(n.weight(g, s));
    dot += b * c.w(n.weight(g, s));
  }
  if (gx == nullptr) return;
  const double count = static_cast<double>(n.segments) * static_cast<double>(n.length);
  const A shift = given ? A(0) : static_cast<A>(-r * sum / count);
  const A slope = given ? A(0) : static_cast<A>(-r * r * dot / count);
  for (int64_t s = 0; s < n.segments; ++s) {
    const A scale = static_cast<A>(r * c.w(n.weight(g, s)));
    const T* __restrict p = x + at + s * n.step;
    const T* __restrict q = gy + at + s * n.step;
    T* __restrict to = gx + at + s * n.step;
    for (int64_t i = 0; i < n.length; ++i)
      to[i] = static_cast<T>(static_cast<A>(q[i]) * scale +
                             ((static_cast<A>(p[i]) - m) * slope + shift));
  }
}

// Handles groups of adjacent single elements: rows of a matrix, whose columns are the groups.
template <class T>
void forward_columns(const NormGroups& n, int64_t lo, int64_t hi, const T* x, Coefficients<T> c,
                     double eps, bool given, T* y, Wide<T>* mean, Wide<T>* rstd, Wide<T>* var) {
  using A = Wide<T>;
  const int64_t width = hi - lo;
  std::vector<double> sum(static_cast<size_t>(width)), squares(static_cast<size_t>(width));
  std::vector<A> a(static_cast<size_t>(width)), b(static_cast<size_t>(width));
  if (!given) {
    const double count = static_cast<double>(n.segments);
    double* __restrict total = sum.data();
    for (int64_t s = 0; s < n.segments; ++s) {
      const T* __restrict p = x + s * n.step + lo;
      for (int64_t i = 0; i < width; ++i) total[i] += static_cast<double>(static_cast<A>(p[i]));
    }
    for (int64_t i = 0; i < width; ++i) total[i] /= count;
    double* __restrict square = squares.data();
    for (int64_t s = 0; s < n.segments; ++s) {
      const T* __restrict p = x + s * n.step + lo;
      for (int64_t i = 0; i < width; ++i) {
        const double d = static_cast<double>(static_cast<A>(p[i])) - total[i];
        square[i] += d * d;
      }
    }
    for (int64_t i = 0; i < width; ++i) {
      mean[lo + i] = static_cast<A>(total[i]);
      rstd[lo + i] = static_cast<A>(1 / std::sqrt(square[i] / count + eps));
      if (var != nullptr) var[lo + i] = static_cast<A>(square[i] / count);
    }
  }
  for (int64_t i = 0; i < width; ++i) {
    const int64_t w = n.weight(lo + i, 0);
    a[static_cast<size_t>(i)] = static_cast<A>(static_cast<double>(rstd[lo + i]) * c.w(w));
    b[static_cast<size_t>(i)] = static_cast<A>(c.b(w));
  }
  const A* __restrict m = mean + lo;
  for (int64_t s = 0; s < n.segments; ++s) {
    const T* __restrict p = x + s * n.step + lo;
    T* __restrict q = y + s * n.step + lo;
    for (int64_t i = 0; i < width; ++i)
      q[i] = static_cast<T>((static_cast<A>(p[i]) - m[i]) * a[static_cast<size_t>(i)] +
                            b[static_cast<size_t>(i)]);
  }
}

template <class T>
void backward_columns(const NormGroups& n, int64_t lo, int64_t hi, const T* gy, const T* x,
                      const Wide<T>* mean, const Wide<T>* rstd, Coefficients<T> c, bool given,
                      T* gx, double* sums, double* dots) {
  using A = Wide<T>;
  const int64_t width = hi - lo;
  std::vector<double> sum(static_cast<size_t>(width)), dot(static_cast<size_t>(width));
  const A* __restrict m = mean + lo;
  double* __restrict total = sum.data();
  double* __restrict products = dot.data();
  for (int64_t s = 0; s < n.segments; ++s) {
    const T* __restrict p = x + s * n.step + lo;
    const T* __restrict q = gy + s * n.step + lo;
    for (int64_t i = 0; i < width; ++i) {
      const A v = static_cast<A>(q[i]);
      total[i] += static_cast<double>(v);
      products[i] += static_cast<double>(v * (static_cast<A>(p[i]) - m[i]));
    }
  }
  std::vector<A> scale(static_cast<size_t>(width)), slope(static_cast<size_t>(width)),
      shift(static_cast<size_t>(width));
  const double count = static_cast<double>(n.segments);
  for (int64_t i = 0; i < width; ++i) {
    const auto k = static_cast<size_t>(i);
    const double r = static_cast<double>(rstd[lo + i]), w = c.w(n.weight(lo + i, 0));
    // The caller adds up a group's segments; here they are added already, so store one sum per
    // group.
    for (int64_t s = 0; s < n.segments; ++s) {
      sums[(lo + i) * n.segments + s] = s == 0 ? total[i] : 0;
      dots[(lo + i) * n.segments + s] = s == 0 ? r * products[i] : 0;
    }
    scale[k] = static_cast<A>(r * w);
    slope[k] = given ? A(0) : static_cast<A>(-r * r * r * w * products[i] / count);
    shift[k] = given ? A(0) : static_cast<A>(-r * w * total[i] / count);
  }
  if (gx == nullptr) return;
  for (int64_t s = 0; s < n.segments; ++s) {
    const T* __restrict p = x + s * n.step + lo;
    const T* __restrict q = gy + s * n.step + lo;
    T* __restrict to = gx + s * n.step + lo;
    for (int64_t i = 0; i < width; ++i) {
      const auto k = static_cast<size_t>(i);
      to[i] = static_cast<T>(static_cast<A>(q[i]) * scale[k] +
                             ((static_cast<A>(p[i]) - m[i]) * slope[k] + shift[k]));
    }
  }
}

// True if element s of group g is at s * step + g.
bool are_columns(const NormGroups& n) {
  return n.length == 1 && n.inner == 1 && n.wrap == n.groups && n.per_segment == 0;
}

}  // namespace

GroupNormLoops group_norm_loops() {
  GroupNormLoops loops;
  loops.forward = [](DType t, const NormGroups& n, int64_t lo, int64_t hi, const void* x,
                     const void* weight, const void* bias, double eps, bool given, void* y,
                     void* mean, void* rstd, void* var) {
    dispatch_floating(t, [&]<class T>(TypeTag<T>) {
      using A = Wide<T>;
      const Coefficients<T> c{static_cast<const T*>(weight), static_cast<const T*>(bias)};
      const T* from = static_cast<const T*>(x);
      T* to = static_cast<T*>(y);
      if (are_columns(n))
        return forward_columns<T>(n, lo, hi, from, c, eps, given, to, static_cast<A*>(mean),
                                  static_cast<A*>(rstd), static_cast<A*>(var));
      for (; lo < hi; ++lo)
        forward_group<T>(n, lo, from, c, eps, given, to, static_cast<A*>(mean),
                         static_cast<A*>(rstd), static_cast<A*>(var));
    });
  };
  loops.backward = [](DType t, const NormGroups& n, int64_t lo, int64_t hi, const void* g,
                      const void* x, const void* mean, const void* rstd, const void* weight,
                      bool given, void* gx, double* sums, double* dots) {
    dispatch_floating(t, [&]<class T>(TypeTag<T>) {
      using A = Wide<T>;
      const Coefficients<T> c{static_cast<const T*>(weight), nullptr};
      const T *gy = static_cast<const T*>(g), *from = static_cast<const T*>(x);
      const A *m = static_cast<const A*>(mean), *r = static_cast<const A*>(rstd);
      if (are_columns(n))
        return backward_columns<T>(n, lo, hi, gy, from, m, r, c, given, static_cast<T*>(gx), sums,
                                   dots);
      for (; lo < hi; ++lo)
        backward_group<T>(n, lo, gy, from, m, r, c, given, static_cast<T*>(gx), sums, dots);
    });
  };
  return loops;
}

}  // namespace cograd::kernels::COGRAD_ISA
