// SPDX-License-Identifier: BSD-3-Clause
// Row and column loops of softmax; compiled once per instruction set.
#include "kernels/nn/softmax_loops.h"
#include "kernels/core/floating.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/core/block_sum.h"

namespace cograd::kernels::COGRAD_ISA {

SoftmaxLoops softmax_loops();

namespace {

// Loads a vector of the last n % L elements, padded with `fill`.
template <class A>
COGRAD_INLINE Vec<A, kLanes<A>> load_tail(const A* p, int64_t count, A fill) {
  Vec<A, kLanes<A>> v = Vec<A, kLanes<A>>{} + fill;
  std::memcpy(&v, p, static_cast<size_t>(count) * sizeof(A));
  return v;
}
template <class A>
COGRAD_INLINE void store_tail(A* p, int64_t count, Vec<A, kLanes<A>> v) {
  std::memcpy(p, &v, static_cast<size_t>(count) * sizeof(A));
}

template <class A>
A row_max(const A* x, int64_t n) {
  constexpr int L = kLanes<A>;
  constexpr A kLow = -std::numeric_limits<A>::infinity();
  Vec<A, L> m0 = Vec<A, L>{} + kLow, m1 = m0;
  int64_t i = 0;
  for (; i + 2 * L <= n; i += 2 * L) {
    const auto v0 = load(x + i), v1 = load(x + i + L);
    m0 = m0 > v0 ? m0 : v0;
    m1 = m1 > v1 ? m1 : v1;
  }
  m0 = m0 > m1 ? m0 : m1;
  A m = kLow;
  for (int k = 0; k < L; ++k) m = m > m0[k] ? m : m0[k];
  for (; i < n; ++i) m = m > x[i] ? m : x[i];
  return m;
}

// Computes one row. Any NaN, +inf, or a row of -inf results in NaN through x - max.
template <class A>
void forward_row(bool log, const A* x, A* y, int64_t n) {
  constexpr int L = kLanes<A>;
  constexpr A kLow = -std::numeric_limits<A>::infinity();
  const A max = row_max(x, n);
  const int64_t tail = n % L, whole = n - tail;
  double sum = block_sum<A>(whole, [&](int64_t i) {
    const auto e = vexp<L>(load(x + i) - max);
    if (!log) store<A, L>(y + i, e);
    return e;
  });
  if (tail != 0) {
    const auto e = vexp<L>(load_tail(x + whole, tail, kLow) - max);
    double rest = 0;
    for (int64_t k = 0; k < tail; ++k) rest += static_cast<double>(e[k]);
    sum += rest;
    if (!log) store_tail(y + whole, tail, e);
  }
  if (log) {
    const A shift = static_cast<A>(std::log(sum));
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - max) - shift;
  } else {
    const A scale = static_cast<A>(1 / sum);
    for (int64_t i = 0; i < n; ++i) y[i] *= scale;
  }
}

template <class A>
void backward_row(bool log, const A* g, const A* y, A* gx, int64_t n) {
  constexpr int L = kLanes<A>;
  const int64_t tail = n % L, whole = n - tail;
  double sum =
      block_sum<A>(whole, [&](int64_t i) { return log ? load(g + i) : load(g + i) * load(y + i); });
  for (int64_t i = whole; i < n; ++i) sum += static_cast<double>(log ? g[i] : g[i] * y[i]);
  const A s = static_cast<A>(sum);
  if (!log) {
    for (int64_t i = 0; i < n; ++i) gx[i] = y[i] * (g[i] - s);
    return;
  }
  for (int64_t i = 0; i < whole; i += L) {
    store<A, L>(gx + i, load(g + i) - vexp<L>(load(y + i)) * s);
  }
  if (tail != 0) {
    const auto v = load_tail(g + whole, tail, A(0)) - vexp<L>(load_tail(y + whole, tail, A(0))) * s;
    store_tail(gx + whole, tail, v);
  }
}

template <class A>
void run_row(SoftmaxOp op, const A* a, const A* b, A* out, int64_t n) {
  switch (op) {
    case SoftmaxOp::Softmax:
    case SoftmaxOp::LogSoftmax:
      return forward_row(op == SoftmaxOp::LogSoftmax, a, out, n);
    case SoftmaxOp::SoftmaxBackward:
    case SoftmaxOp::LogSoftmaxBackward:
      return backward_row(op == SoftmaxOp::LogSoftmaxBackward, a, b, out, n);
  }
}

// Computes K vectors of columns at once; row i of an array starts at i * stride.
template <class A, int K>
void run_columns(SoftmaxOp op, const A* a, const A* b, A* out, int64_t n, int64_t stride) {
  constexpr int L = kLanes<A>;
  using V = Vec<A, L>;
  V sum[K]{};
  if (op == SoftmaxOp::Softmax || op == SoftmaxOp::LogSoftmax) {
    const bool log = op == SoftmaxOp::LogSoftmax;
    V max[K];
    for (int k = 0; k < K; ++k) max[k] = V{} - std::numeric_limits<A>::infinity();
    for (int64_t i = 0; i < n; ++i) {
      for (int k = 0; k < K; ++k) {
        const V v = load(a + i * stride + k * L);
        max[k] = max[k] > v ? max[k] : v;
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int k = 0; k < K; ++k) {
        const V e = vexp<L>(load(a + i * stride + k * L) - max[k]);
        sum[k] += e;
        if (!log) store<A, L>(out + i * stride + k * L, e);
      }
    }
    for (int k = 0; k < K; ++k) {
      if (!log) {
        sum[k] = 1 / sum[k];
      } else {
        for (int l = 0; l < L; ++l) sum[k][l] = std::log(sum[k][l]);
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int k = 0; k < K; ++k) {
        A* p = out + i * stride + k * L;
        const V v = log ? (load(a + i * stride + k * L) - max[k]) - sum[k] : load(p) * sum[k];
        store<A, L>(p, v);
      }
    }
    return;
  }
  const bool log = op == SoftmaxOp::LogSoftmaxBackward;
  for (int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < K; ++k) {
      const V g = load(a + i * stride + k * L);
      sum[k] += log ? g : g * load(b + i * stride + k * L);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < K; ++k) {
      const V g = load(a + i * stride + k * L), y = load(b + i * stride + k * L);
      const V v = log ? g - vexp<L>(y) * sum[k] : y * (g - sum[k]);
      store<A, L>(out + i * stride + k * L, v);
    }
  }
}

template <class T>
void rows_of(SoftmaxOp op, const T* a, const T* b, T* out, int64_t rows, int64_t n) {
  using A = Acc<T>;
  if constexpr (std::is_same_v<T, A>) {
    for (int64_t r = 0; r < rows; ++r) {
      run_row<A>(op, a + r * n, b == nullptr ? nullptr : b + r * n, out + r * n, n);
    }
  } else {
    const std::unique_ptr<A[]> buffer(new A[static_cast<size_t>(2 * n)]);
    A* wide = buffer.get();
    for (int64_t r = 0; r < rows; ++r) {
      widen_row(a + r * n, n, wide);
      if (b != nullptr) widen_row(b + r * n, n, wide + n);
      run_row<A>(op, wide, wide + n, wide, n);
      narrow_row(wide, n, out + r * n);
    }
  }
}

// Runs whole vectors of a native type in place; the rest goes through a padded copy.
template <class T>
void columns_of(SoftmaxOp op, const T* a, const T* b, T* out, int64_t n, int64_t inner,
                int64_t width) {
  using A = Acc<T>;
  constexpr int L = kLanes<A>;
  int64_t j = 0;
  if constexpr (std::is_same_v<T, A>) {
    const auto at = [&](int64_t col) { return b == nullptr ? nullptr : b + col; };
    for (; j + 4 * L <= width; j += 4 * L) run_columns<A, 4>(op, a + j, at(j), out + j, n, inner);
    for (; j + L <= width; j += L) run_columns<A, 1>(op, a + j, at(j), out + j, n, inner);
  }
  if (j == width) return;
  const std::unique_ptr<A[]> buffer(new A[static_cast<size_t>(2 * n * L)]());
  A* wide = buffer.get();
  for (; j < width; j += L) {
    const int64_t w = std::min<int64_t>(L, width - j);
    for (int64_t i = 0; i < n; ++i) {
      widen_row(a + i * inner + j, w, wide + i * L);
      if (b != nullptr) widen_row(b + i * inner + j, w, wide + (n + i) * L);
    }
    run_columns<A, 1>(op, wide, wide + n * L, wide, n, L);
    for (int64_t i = 0; i < n; ++i) narrow_row(wide + i * L, w, out + i * inner + j);
  }
}

void rows(SoftmaxOp op, DType t, const void* a, const void* b, void* out, int64_t count,
          int64_t n) {
  dispatch_floating(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    rows_of(op, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(out), count, n);
  });
}

void columns(SoftmaxOp op, DType t, const void* a, const void* b, void* out, int64_t n,
             int64_t inner, int64_t width) {
  dispatch_floating(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    columns_of(op, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(out), n,
               inner, width);
  });
}

void scaled_exp(DType t, const void* a, double scale, void* out, int64_t n) {
  dispatch_floating(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    constexpr int L = kLanes<A>;
    const T* x = static_cast<const T*>(a);
    T* y = static_cast<T*>(out);
    const A s = static_cast<A>(scale);
    int64_t i = 0;
    for (; i + L <= n; i += L) store<T, L>(y + i, vexp<L>(load(x + i)) * s);
    for (; i < n; ++i) {
      const Vec<A, L> v = vexp<L>(Vec<A, L>{} + static_cast<A>(x[i])) * s;
      y[i] = static_cast<T>(v[0]);
    }
  });
}

}  // namespace

SoftmaxLoops softmax_loops() { return {rows, columns, scaled_exp}; }

}  // namespace cograd::kernels::COGRAD_ISA
