// SPDX-License-Identifier: BSD-3-Clause
// Multiplies rows by panels; packs a panel of op(B) in the accumulator's type.
#include "kernels/product/gemm_small.h"

#include <algorithm>
#include <type_traits>

namespace cograd::kernels {
namespace {

constexpr int64_t kPanelRows = 64;
constexpr int64_t kPanelCols = 64;

// Integers accumulate as unsigned, so that they wrap; bool counts, and the result is count != 0.
template <class T>
using Acc = std::conditional_t<
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float,
    std::conditional_t<std::is_floating_point_v<T> || is_complex_type<T>, T,
                       std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, uint32_t>>>;

template <class T, class A>
T narrow(A v) {
  if constexpr (std::is_same_v<T, bool>)
    return v != 0;
  else
    return static_cast<T>(v);
}
template <class A>
A scalar(double v) {
  if constexpr (std::is_integral_v<A>)
    return static_cast<A>(static_cast<int64_t>(v));
  else if constexpr (is_complex_type<A>)
    return A(static_cast<typename A::value_type>(v));
  else
    return static_cast<A>(v);
}

// Computes acc[0, cols) += sum over p of row[p * step] * panel[p, :].
template <class T, class A>
void row_times_panel(const T* row, int64_t step, const A* panel, int64_t ld, int64_t depth,
                     int64_t cols, A* acc) {
  int64_t p = 0;
  for (; p + 4 <= depth; p += 4) {
    const A a0 = static_cast<A>(row[p * step]), a1 = static_cast<A>(row[(p + 1) * step]);
    const A a2 = static_cast<A>(row[(p + 2) * step]), a3 = static_cast<A>(row[(p + 3) * step]);
    const A* b = panel + p * ld;
    for (int64_t j = 0; j < cols; ++j) {
      acc[j] += a0 * b[j] + a1 * b[ld + j] + a2 * b[2 * ld + j] + a3 * b[3 * ld + j];
    }
  }
  for (; p < depth; ++p) {
    const A a = static_cast<A>(row[p * step]);
    for (int64_t j = 0; j < cols; ++j) acc[j] += a * panel[p * ld + j];
  }
}

// Holds op(B)[p0.., j0..]: the stored matrix if it can be used, else a packed copy.
template <class T, class A>
struct Panel {
  alignas(64) A packed[kPanelRows * kPanelCols];
  const A* data = packed;
  int64_t ld = kPanelCols;

  void load(const GemmArgs& g, int64_t p0, int64_t depth, int64_t j0, int64_t cols) {
    const T* b = static_cast<const T*>(g.b);
    if constexpr (std::is_same_v<T, A>) {
      if (!g.tb) {
        data = b + p0 * g.ldb + j0;
        ld = g.ldb;
        return;
      }
    }
    const int64_t sp = g.tb ? 1 : g.ldb, sj = g.tb ? g.ldb : 1;
    for (int64_t p = 0; p < depth; ++p) {
      const T* src = b + (p0 + p) * sp + j0 * sj;
      for (int64_t j = 0; j < cols; ++j) packed[p * kPanelCols + j] = static_cast<A>(src[j * sj]);
    }
  }
};

template <class T>
void small(const GemmArgs& g, int64_t row_begin, int64_t row_end) {
  using A = Acc<T>;
  const T* a = static_cast<const T*>(g.a);
  T* c = static_cast<T*>(g.c);
  const A alpha = scalar<A>(g.alpha), beta = scalar<A>(g.beta);
  const int64_t step = g.ta ? g.lda : 1, row_step = g.ta ? 1 : g.lda;
  Panel<T, A> panel;
  alignas(64) A acc[kPanelRows * kPanelCols];
  for (int64_t j0 = 0; j0 < g.n; j0 += kPanelCols) {
    const int64_t cols = std::min(kPanelCols, g.n - j0);
    for (int64_t i0 = row_begin; i0 < row_end; i0 += kPanelRows) {
      const int64_t rows = std::min(kPanelRows, row_end - i0);
      for (int64_t i = 0; i < rows; ++i) std::fill_n(acc + i * cols, cols, A(0));
      for (int64_t p0 = 0; p0 < g.k; p0 += kPanelRows) {
        const int64_t depth = std::min(kPanelRows, g.k - p0);
        panel.load(g, p0, depth, j0, cols);
        for (int64_t i = 0; i < rows; ++i) {
          row_times_panel<T, A>(a + (i0 + i) * row_step + p0 * step, step, panel.data, panel.ld,
                                depth, cols, acc + i * cols);
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        T* dst = c + (i0 + i) * g.ldc + j0;
        for (int64_t j = 0; j < cols; ++j) {
          A v = alpha * acc[i * cols + j];
          if (!(beta == A(0))) v += beta * static_cast<A>(dst[j]);
          dst[j] = narrow<T>(v);
        }
      }
    }
  }
}

}  // namespace

void gemm_small(DType t, const GemmArgs& g, int64_t row_begin, int64_t row_end) {
  dispatch_all(t, [&](auto tag) { small<typename decltype(tag)::type>(g, row_begin, row_end); });
}

void dot_small(DType t, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy,
               void* out) {
  dispatch_all(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // Use double: a float sum over many terms would lose digits.
    using A = std::conditional_t<
        std::is_same_v<Acc<T>, float>, double,
        std::conditional_t<std::is_same_v<T, Complex<float>>, Complex<double>, Acc<T>>>;
    const T* px = static_cast<const T*>(x);
    const T* py = static_cast<const T*>(y);
    A total = A(0);
    for (int64_t i = 0; i < n; ++i) {
      total += static_cast<A>(px[i * incx]) * static_cast<A>(py[i * incy]);
    }
    *static_cast<T*>(out) = narrow<T>(static_cast<Acc<T>>(total));
  });
}

void ger_small(DType t, int64_t m, int64_t n, double alpha, const void* x, int64_t incx,
               const void* y, int64_t incy, double beta, void* a, int64_t lda) {
  dispatch_all(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const T* px = static_cast<const T*>(x);
    const T* py = static_cast<const T*>(y);
    const A scale = scalar<A>(alpha), keep = scalar<A>(beta);
    for (int64_t i = 0; i < m; ++i) {
      const A xi = scale * static_cast<A>(px[i * incx]);
      T* row = static_cast<T*>(a) + i * lda;
      for (int64_t j = 0; j < n; ++j) {
        A v = xi * static_cast<A>(py[j * incy]);
        if (!(keep == A(0))) v += keep * static_cast<A>(row[j]);
        row[j] = narrow<T>(v);
      }
    }
  });
}

}  // namespace cograd::kernels
