// SPDX-License-Identifier: BSD-3-Clause
// Row loops of layer normalisation; compiled once per instruction set.
#include "kernels/nn/norm_loops.h"
#include "kernels/core/floating.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/core/block_sum.h"

namespace cograd::kernels::COGRAD_ISA {

LayerNormLoops layer_norm_loops();

namespace {

// Returns the sum over n entries: vector(i) for whole vectors, scalar(i) for the rest.
template <class A, class F, class S>
COGRAD_INLINE double sum_of(int64_t n, F&& vector, S&& scalar) {
  double total = block_sum<A>(n, vector);
  for (int64_t i = n / kLanes<A> * kLanes<A>; i < n; ++i) total += static_cast<double>(scalar(i));
  return total;
}

template <class A>
void forward_row(const A* x, const A* w, const A* b, int64_t n, double eps, A* y, A* mean,
                 A* rstd) {
  const double count = static_cast<double>(n);
  const double m =
      sum_of<A>(n, [&](int64_t i) { return load(x + i); }, [&](int64_t i) { return x[i]; }) / count;
  const A shift = static_cast<A>(m);
  const double m2 = sum_of<A>(
      n,
      [&](int64_t i) {
        const auto d = load(x + i) - shift;
        return d * d;
      },
      [&](int64_t i) { return (x[i] - shift) * (x[i] - shift); });
  const A scale = static_cast<A>(1 / std::sqrt(m2 / count + eps));
  *mean = shift;
  *rstd = scale;
  if (w != nullptr && b != nullptr) {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * scale * w[i] + b[i];
  } else if (w != nullptr) {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * scale * w[i];
  } else if (b != nullptr) {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * scale + b[i];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * scale;
  }
}

// Computes sum(h) and sum(h * xhat) for h = g * w in one pass.
template <class A>
void two_sums(int64_t n, const A* g, const A* w, const A* x, A mean, A rstd, double* s1,
              double* s2) {
  constexpr int L = kLanes<A>;
  double a = 0, b = 0;
  int64_t i = 0;
  while (i + L <= n) {
    const int64_t end = std::min(n, i + kBlock);
    Vec<A, L> va{}, vb{};
    for (; i + L <= end; i += L) {
      const Vec<A, L> h = load(g + i) * load(w + i);
      va += h;
      vb += h * ((load(x + i) - mean) * rstd);
    }
    a += add_lanes<A, L>(va);
    b += add_lanes<A, L>(vb);
  }
  for (; i < n; ++i) {
    const A h = g[i] * w[i];
    a += static_cast<double>(h);
    b += static_cast<double>(h * ((x[i] - mean) * rstd));
  }
  *s1 = a;
  *s2 = b;
}

// Computes gx = rstd * (h - mean(h) - xhat * mean(h * xhat)) for h = g * w.
template <class A>
void backward_row(const A* g, const A* x, A mean, A rstd, const A* w, int64_t n, A* __restrict__ gx,
                  A* __restrict__ sum_gw, A* __restrict__ sum_g) {
  const auto hat = [&](auto v) { return (v - mean) * rstd; };
  if (gx != nullptr) {
    double s1, s2;
    if (w != nullptr) {
      two_sums<A>(n, g, w, x, mean, rstd, &s1, &s2);
    } else {
      s1 = sum_of<A>(n, [&](int64_t i) { return load(g + i); }, [&](int64_t i) { return g[i]; });
      s2 = sum_of<A>(
          n, [&](int64_t i) { return load(g + i) * hat(load(x + i)); },
          [&](int64_t i) { return g[i] * hat(x[i]); });
    }
    const A m1 = static_cast<A>(s1 / static_cast<double>(n));
    const A m2 = static_cast<A>(s2 / static_cast<double>(n));
    if (w != nullptr && sum_gw != nullptr && sum_g != nullptr) {
      // Compute the usual case in one pass over g and x.
      for (int64_t i = 0; i < n; ++i) {
        const A h = hat(x[i]), gi = g[i];
        gx[i] = rstd * (gi * w[i] - m1 - h * m2);
        sum_gw[i] += gi * h;
        sum_g[i] += gi;
      }
      return;
    }
    if (w != nullptr) {
      for (int64_t i = 0; i < n; ++i) gx[i] = rstd * (g[i] * w[i] - m1 - hat(x[i]) * m2);
    } else {
      for (int64_t i = 0; i < n; ++i) gx[i] = rstd * (g[i] - m1 - hat(x[i]) * m2);
    }
  }
  if (sum_gw != nullptr) {
    for (int64_t i = 0; i < n; ++i) sum_gw[i] += g[i] * hat(x[i]);
  }
  if (sum_g != nullptr) {
    for (int64_t i = 0; i < n; ++i) sum_g[i] += g[i];
  }
}

// Provides rows in the accumulator's type: the array itself, or a widened copy.
template <class T>
class WideRow {
 public:
  using A = Acc<T>;
  explicit WideRow(int64_t n) : n_(n) {
    if constexpr (!std::is_same_v<T, A>) buffer_.reset(new A[static_cast<size_t>(n)]);
  }
  const A* read(const T* p) {
    if (p == nullptr) return nullptr;
    if constexpr (std::is_same_v<T, A>) {
      return p;
    } else {
      widen_row(p, n_, buffer_.get());
      return buffer_.get();
    }
  }
  A* target(T* p) {
    if constexpr (std::is_same_v<T, A>)
      return p;
    else
      return p == nullptr ? nullptr : buffer_.get();
  }
  void flush(T* p) {
    if constexpr (!std::is_same_v<T, A>) {
      if (p != nullptr) narrow_row(buffer_.get(), n_, p);
    }
  }

 private:
  int64_t n_;
  std::unique_ptr<A[]> buffer_;
};

template <class T>
void forward_of(const T* x, const T* w, const T* b, int64_t rows, int64_t n, double eps, T* y,
                Acc<T>* mean, Acc<T>* rstd) {
  WideRow<T> wx(n), ww(n), wb(n), wy(n);
  const auto* weight = ww.read(w);
  const auto* bias = wb.read(b);
  for (int64_t r = 0; r < rows; ++r) {
    forward_row<Acc<T>>(wx.read(x + r * n), weight, bias, n, eps, wy.target(y + r * n), mean + r,
                        rstd + r);
    wy.flush(y + r * n);
  }
}

template <class T>
void backward_of(const T* g, const T* x, const Acc<T>* mean, const Acc<T>* rstd, const T* w,
                 int64_t rows, int64_t n, T* gx, Acc<T>* sum_gw, Acc<T>* sum_g) {
  WideRow<T> wg(n), wx(n), ww(n), out(n);
  const auto* weight = ww.read(w);
  for (int64_t r = 0; r < rows; ++r) {
    T* dst = gx == nullptr ? nullptr : gx + r * n;
    backward_row<Acc<T>>(wg.read(g + r * n), wx.read(x + r * n), mean[r], rstd[r], weight, n,
                         out.target(dst), sum_gw, sum_g);
    out.flush(dst);
  }
}

void forward(DType t, const void* x, const void* weight, const void* bias, int64_t rows, int64_t n,
             double eps, void* y, void* mean, void* rstd) {
  dispatch_floating(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    forward_of<T>(static_cast<const T*>(x), static_cast<const T*>(weight),
                  static_cast<const T*>(bias), rows, n, eps, static_cast<T*>(y),
                  static_cast<A*>(mean), static_cast<A*>(rstd));
  });
}

void backward(DType t, const void* g, const void* x, const void* mean, const void* rstd,
              const void* weight, int64_t rows, int64_t n, void* gx, void* sum_gw, void* sum_g) {
  dispatch_floating(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    backward_of<T>(static_cast<const T*>(g), static_cast<const T*>(x), static_cast<const A*>(mean),
                   static_cast<const A*>(rstd), static_cast<const T*>(weight), rows, n,
                   static_cast<T*>(gx), static_cast<A*>(sum_gw), static_cast<A*>(sum_g));
  });
}

}  // namespace

LayerNormLoops layer_norm_loops() { return {forward, backward}; }

}  // namespace cograd::kernels::COGRAD_ISA
