// SPDX-License-Identifier: BSD-3-Clause
// Cumulative sums, products, extremes and logsumexp.
#include "kernels/reduce/scan.h"
#include "kernels/core/floating.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements per task
constexpr int64_t kTile = 256;       // columns scanned side by side

template <class T>
struct ScanAcc {
  using type = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
};
template <>
struct ScanAcc<Half> {
  using type = float;
};
template <>
struct ScanAcc<BFloat16> {
  using type = float;
};
// Use double: rounding errors of a running float sum would grow with n.
template <>
struct ScanAcc<float> {
  using type = double;
};
template <>
struct ScanAcc<Complex<float>> {
  using type = Complex<double>;
};
template <class T>
using Acc = typename ScanAcc<T>::type;

template <class T>
bool is_nan(T v) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return v != v;
}

// Runs body(x offset, count) over tiles of adjacent columns; rows are `inner` apart.
template <class F>
void for_tiles(int64_t outer, int64_t n, int64_t inner, const F& body) {
  if (outer == 0 || n == 0 || inner == 0) return;
  HeavyScope heavy(outer * n * inner);
  const int64_t tiles = (inner + kTile - 1) / kTile;
  const int64_t grain = std::max<int64_t>(1, kGrain / (n * std::min(inner, kTile)));
  parallel_for(0, outer * tiles, grain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const int64_t o = lo / tiles, j = (lo - o * tiles) * kTile;
      body(o * n * inner + j, std::min(kTile, inner - j));
    }
  });
}

// Computes y = running op over rows; the accumulators of a tile are in a small array.
template <class T, class A, class Op>
void scan(const T* x, T* y, int64_t outer, int64_t n, int64_t inner, A identity, const Op& op) {
  for_tiles(outer, n, inner, [&](int64_t first, int64_t width) {
    const T* px = x + first;
    T* py = y + first;
    if (width == 1) {
      A acc = identity;
      for (int64_t i = 0; i < n; ++i) {
        acc = op(acc, static_cast<A>(px[i * inner]));
        py[i * inner] = static_cast<T>(acc);
      }
      return;
    }
    A acc[kTile];
    std::fill_n(acc, width, identity);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        acc[j] = op(acc[j], static_cast<A>(px[i * inner + j]));
        py[i * inner + j] = static_cast<T>(acc[j]);
      }
    }
  });
}

// Adds. Integers wrap as in torch, through unsigned arithmetic.
template <class A>
A add(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <class A>
A multiply(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

// Computes log(exp(a) + exp(b)) without overflow; equal infinities are returned unchanged.
double log_add(double a, double b) {
  if (a != a || b != b) return a + b;
  const double hi = std::max(a, b), lo = std::min(a, b);
  if (std::isinf(hi) && (hi < 0 || hi > 0)) return hi;
  return hi + std::log1p(std::exp(lo - hi));
}

template <class T, class Better>
void extreme(const T* x, T* values, int64_t* indices, int64_t outer, int64_t n, int64_t inner,
             const Better& better) {
  for_tiles(outer, n, inner, [&](int64_t first, int64_t width) {
    for (int64_t j = first; j < first + width; ++j) {
      T best = x[j];
      int64_t where = 0;
      for (int64_t i = 0; i < n; ++i) {
        const T v = x[j + i * inner];
        // On ties the index moves to the later position, as in torch.
        if (i == 0 || is_nan(v) || (!is_nan(best) && better(v, best))) {
          best = v;
          where = i;
        }
        values[j + i * inner] = best;
        indices[j + i * inner] = where;
      }
    }
  });
}

}  // namespace

void cumsum(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  COGRAD_SLOT(cumsum, t, x, y, outer, n, inner);
  if (is_complex(t)) return cumsum(real_dtype(t), x, y, outer, n, 2 * inner);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    scan(static_cast<const T*>(x), static_cast<T*>(y), outer, n, inner, static_cast<Acc<T>>(0),
         [](Acc<T> a, Acc<T> b) { return add(a, b); });
  });
}

void cumprod(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  COGRAD_SLOT(cumprod, t, x, y, outer, n, inner);
  dispatch_all(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    scan(static_cast<const T*>(x), static_cast<T*>(y), outer, n, inner, static_cast<Acc<T>>(1),
         [](Acc<T> a, Acc<T> b) { return multiply(a, b); });
  });
}

void logcumsumexp(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  COGRAD_SLOT(logcumsumexp, t, x, y, outer, n, inner);
  const auto run = [&]<class T>(TypeTag<T>) {
    using A = Acc<T>;
    scan(static_cast<const T*>(x), static_cast<T*>(y), outer, n, inner,
         -std::numeric_limits<A>::infinity(), [](A a, A b) {
           return static_cast<A>(log_add(static_cast<double>(a), static_cast<double>(b)));
         });
  };
  dispatch_floating(t, run);
}

void cummax(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
            int64_t inner) {
  COGRAD_SLOT(cummax, t, x, values, indices, outer, n, inner);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    extreme(static_cast<const T*>(x), static_cast<T*>(values), indices, outer, n, inner,
            [](T a, T b) { return a >= b; });
  });
}

void cummin(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
            int64_t inner) {
  COGRAD_SLOT(cummin, t, x, values, indices, outer, n, inner);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    extreme(static_cast<const T*>(x), static_cast<T*>(values), indices, outer, n, inner,
            [](T a, T b) { return a <= b; });
  });
}

}  // namespace cograd::kernels
