// SPDX-License-Identifier: BSD-3-Clause
// Leaf loops of variance and logsumexp; compiled once per instruction set.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reduce/reduce_leaf.h"
#include "kernels/reduce/reduce_vec.h"

namespace cograd::kernels::COGRAD_ISA {

ReduceLeaf stat_leaf(LeafOp op, bool single);

namespace {

constexpr int64_t kBlock = 1024;  // elements per two-pass block
constexpr int64_t kRowsMax = 64;  // rows per two-pass column block
constexpr double kInf = std::numeric_limits<double>::infinity();

// Returns the sum of f(v) over a buffer, four vectors at a time; f accepts vectors and scalars.
template <class A, class F>
COGRAD_INLINE double sum_of(const A* p, int64_t n, F&& f) {
  constexpr int L = kLanes<A>;
  using V = Vec<A, L>;
  V a{}, b{};
  int64_t i = 0;
  for (; i + 2 * L <= n; i += 2 * L) {
    a += f(load(p + i));
    b += f(load(p + i + L));
  }
  a += b;
  double total = 0;
  for (int k = 0; k < L; ++k) total += static_cast<double>(a[k]);
  for (; i < n; ++i) {
    A v = p[i];
    V one = V{} + v;
    total += static_cast<double>(f(one)[0]);
  }
  return total;
}

// Loads a vector of adjacent elements; widens them if necessary.
template <class A>
COGRAD_INLINE Vec<A, kLanes<A>> vector_at(const ReduceLeaf& leaf, const char* x) {
  if (leaf.native) return load(reinterpret_cast<const A*>(x));
  alignas(64) A wide[kLanes<A>];
  leaf.widen(x, kLanes<A>, leaf.itemsize, wide);
  return load(wide);
}

void merge_var(VarState& s, double count, double mean, double m2) {
  if (count == 0) return;
  if (s.count == 0) {
    s = VarState{count, mean, m2};
    return;
  }
  const double total = s.count + count;
  const double delta = mean - s.mean;
  const double joined = s.mean + delta * (count / total);
  s.m2 += m2 + delta * delta * (s.count * count / total);
  // `joined` is NaN if inf - inf occurred. The sum of the means is then infinite, or correctly NaN.
  s.mean = joined == joined ? joined : s.mean + mean;
  s.count = total;
}

// Handles a block whose squares overflow A, or that is not finite, by Welford's method (1962) in
// double. If a value is infinite, the mean becomes the sum.
template <class A>
void merge_extreme(VarState& s, const A* p, int64_t n) {
  double mean = 0, m2 = 0, sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(p[i]);
    const double d = v - mean;
    mean += d / static_cast<double>(i + 1);
    m2 += d * (v - mean);
    sum += v;
  }
  const bool overflows = !(m2 >= 0) && std::isfinite(sum);
  merge_var(s, static_cast<double>(n), mean == mean ? mean : sum, overflows ? kInf : m2);
}

template <class A>
struct Var {
  static void init(void* state, int64_t count) {
    std::fill_n(static_cast<VarState*>(state), count, VarState{0, 0, 0});
  }
  static void row(const ReduceLeaf& leaf, void* state, const char* x, int64_t n, int64_t stride,
                  int64_t) {
    VarState& s = *static_cast<VarState*>(state);
    alignas(64) A buffer[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      const A* p = buffer;
      if (leaf.native && stride == static_cast<int64_t>(sizeof(A))) {
        p = reinterpret_cast<const A*>(x) + i;
      } else {
        leaf.widen(x + i * stride, m, stride, buffer);
      }
      const double count = static_cast<double>(m);
      const A shift = static_cast<A>(sum_of(p, m, [](auto v) { return v; }) / count);
      double d1 = sum_of(p, m, [shift](auto v) { return v - shift; });
      const double d2 = sum_of(p, m, [shift](auto v) { return (v - shift) * (v - shift); });
      if (!std::isfinite(d2)) {
        merge_extreme(s, p, m);
        continue;
      }
      // d1 is the rest left by rounding the mean to A.
      d1 /= count;
      merge_var(s, count, static_cast<double>(shift) + d1, std::max(d2 - count * d1 * d1, 0.0));
    }
  }
  static void col(const ReduceLeaf& leaf, void* state, const char* x, int64_t m, int64_t rows,
                  int64_t row_stride, int64_t) {
    VarState* s = static_cast<VarState*>(state);
    constexpr int L = kLanes<A>;
    using V = Vec<A, L>;
    int64_t j = 0;
    for (; j + L <= m; j += L) {
      const char* base = x + j * leaf.itemsize;
      for (int64_t r = 0; r < rows; r += kRowsMax) {
        const int64_t k = std::min(kRowsMax, rows - r);
        const char* p = base + r * row_stride;
        V sum{}, d1{}, d2{};
        for (int64_t i = 0; i < k; ++i) {
          sum += vector_at<A>(leaf, p + i * row_stride);
        }
        const V shift = sum / static_cast<A>(k);
        for (int64_t i = 0; i < k; ++i) {
          const V d = vector_at<A>(leaf, p + i * row_stride) - shift;
          d1 += d;
          d2 += d * d;
        }
        const double count = static_cast<double>(k);
        for (int i = 0; i < L; ++i) {
          const double e = static_cast<double>(d1[i]) / count;
          const double q = static_cast<double>(d2[i]);
          if (std::isfinite(q)) {
            merge_var(s[j + i], count, static_cast<double>(shift[i]) + e,
                      std::max(q - count * e * e, 0.0));
          } else {
            row(leaf, s + j + i, p + i * leaf.itemsize, k, row_stride, 0);
          }
        }
      }
    }
    for (; j < m; ++j) {
      row(leaf, s + j, x + j * leaf.itemsize, rows, row_stride, 0);
    }
  }
  static void merge(void* state, const void* other, int64_t count) {
    VarState* s = static_cast<VarState*>(state);
    const VarState* o = static_cast<const VarState*>(other);
    for (int64_t i = 0; i < count; ++i) merge_var(s[i], o[i].count, o[i].mean, o[i].m2);
  }
  static ReduceLeaf leaf() { return {sizeof(VarState), init, row, nullptr, col, merge}; }
};

// Adds sum * exp(max) to the state. Equal maxima (both inf included) add without exp(inf - inf).
void merge_lse(LseState& s, double max, double sum) {
  if (sum == 0) return;
  if (std::isinf(sum)) {  // a term is inf: scaling the sum by exp(-1000) = 0 would give NaN
    max = kInf;
    sum = 1;
  }
  if (max == s.max || s.sum == 0) {
    s = LseState{max, s.sum + sum};
  } else if (max < s.max) {
    s.sum += sum * std::exp(max - s.max);
  } else {
    s = LseState{max, sum + s.sum * std::exp(s.max - max)};
  }
}

template <class A>
struct Lse {
  static void init(void* state, int64_t count) {
    std::fill_n(static_cast<LseState*>(state), count, LseState{-kInf, 0});
  }
  // If the maximum is infinite, the terms are exp(v), where -inf gives 0; shifting by 0 achieves
  // that.
  static A finite_shift(A max) { return std::isinf(max) ? A(0) : max; }

  static void row(const ReduceLeaf& leaf, void* state, const char* x, int64_t n, int64_t stride,
                  int64_t) {
    LseState& s = *static_cast<LseState*>(state);
    alignas(64) A buffer[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      leaf.widen(x + i * stride, m, stride, buffer);
      constexpr int L = kLanes<A>;
      using V = Vec<A, L>;
      V v = V{} - std::numeric_limits<A>::infinity();
      int64_t k = 0;
      for (; k + L <= m; k += L) {
        const V w = load(buffer + k);
        v = v > w ? v : w;
      }
      A max = -std::numeric_limits<A>::infinity();
      for (int q = 0; q < L; ++q) max = std::max(max, v[q]);
      for (; k < m; ++k) max = std::max(max, buffer[k]);
      const A shift = finite_shift(max);
      const double sum = sum_of(buffer, m, [shift](auto w) { return vexp<kLanes<A>>(w - shift); });
      merge_lse(s, static_cast<double>(shift), sum);
    }
  }
  static void col(const ReduceLeaf& leaf, void* state, const char* x, int64_t m, int64_t rows,
                  int64_t row_stride, int64_t) {
    LseState* s = static_cast<LseState*>(state);
    constexpr int L = kLanes<A>;
    using V = Vec<A, L>;
    int64_t j = 0;
    for (; j + L <= m; j += L) {
      const char* base = x + j * leaf.itemsize;
      for (int64_t r = 0; r < rows; r += kRowsMax) {
        const int64_t k = std::min(kRowsMax, rows - r);
        const char* p = base + r * row_stride;
        V max = V{} - std::numeric_limits<A>::infinity();
        for (int64_t i = 0; i < k; ++i) {
          const V w = vector_at<A>(leaf, p + i * row_stride);
          max = max > w ? max : w;
        }
        V shift{};
        for (int i = 0; i < L; ++i) shift[i] = finite_shift(max[i] == max[i] ? max[i] : A(0));
        V sum{};
        for (int64_t i = 0; i < k; ++i) {
          sum += vexp<L>(vector_at<A>(leaf, p + i * row_stride) - shift);
        }
        for (int i = 0; i < L; ++i) {
          merge_lse(s[j + i], static_cast<double>(shift[i]), static_cast<double>(sum[i]));
        }
      }
    }
    for (; j < m; ++j) {
      row(leaf, s + j, x + j * leaf.itemsize, rows, row_stride, 0);
    }
  }
  static void merge(void* state, const void* other, int64_t count) {
    LseState* s = static_cast<LseState*>(state);
    const LseState* o = static_cast<const LseState*>(other);
    for (int64_t i = 0; i < count; ++i) merge_lse(s[i], o[i].max, o[i].sum);
  }
  static ReduceLeaf leaf() { return {sizeof(LseState), init, row, nullptr, col, merge}; }
};

// Sums |x|^p in double, one element at a time because pow dominates the time.
template <class A>
struct Power {
  static void init(void* state, int64_t count) {
    std::fill_n(static_cast<double*>(state), count, 0.0);
  }
  static void row(const ReduceLeaf& leaf, void* state, const char* x, int64_t n, int64_t stride,
                  int64_t) {
    double& s = *static_cast<double*>(state);
    alignas(64) A buffer[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      leaf.widen(x + i * stride, m, stride, buffer);
      double total = 0;
      for (int64_t k = 0; k < m; ++k) {
        total += std::pow(std::abs(static_cast<double>(buffer[k])), leaf.exponent);
      }
      s += total;
    }
  }
  static void col(const ReduceLeaf& leaf, void* state, const char* x, int64_t m, int64_t rows,
                  int64_t row_stride, int64_t) {
    for (int64_t j = 0; j < m; ++j) {
      row(leaf, static_cast<double*>(state) + j, x + j * leaf.itemsize, rows, row_stride, 0);
    }
  }
  static void merge(void* state, const void* other, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      static_cast<double*>(state)[i] += static_cast<const double*>(other)[i];
    }
  }
  static ReduceLeaf leaf() { return {sizeof(double), init, row, nullptr, col, merge}; }
};

}  // namespace

ReduceLeaf stat_leaf(LeafOp op, bool single) {
  switch (op) {
    case LeafOp::Var:
      return single ? Var<float>::leaf() : Var<double>::leaf();
    case LeafOp::PowerSum:
      return single ? Power<float>::leaf() : Power<double>::leaf();
    default:
      return single ? Lse<float>::leaf() : Lse<double>::leaf();
  }
}

}  // namespace cograd::kernels::COGRAD_ISA
