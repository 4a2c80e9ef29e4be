// SPDX-License-Identifier: BSD-3-Clause
// The states of reductions: what a thread keeps of the terms that it has seen. All have init, add
// (N terms at once), merge and finish. Sums of up to 16 terms are computed in the element's compute
// type, sums of these in double, so that one float64 addition is paid per 16 terms.
#pragma once
#include "cuda/args/reduce_args.h"
#include "functions.h"
#include "store.h"

namespace cograd::device {

using Element = COGRAD_T;
using Computed = compute_t<Element>;
inline constexpr bool kFloating = is_float<Computed>;
using Exact = select_t<kFloating, Computed, int64_t>;  // holds any element
using Wide = select_t<kFloating, double, int64_t>;

// The number of term j of those that begin at `first`: packs of `pack` terms that are `step` apart.
struct Places {
  int64_t first, step;
  int pack;
  int64_t at(int j) const { return first + j / pack * step + j % pack; }
};

template <class V>
inline V add_wrapped(V a, V b) {
  if constexpr (is_float<V>)
    return a + b;
  else
    return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

struct SumOp {
  static constexpr bool kSmall = true;  // 16 terms of a small integer type fit into int32
  static constexpr bool kCounts = false;
  template <class V>
  static V identity() {
    return V(0);
  }
  template <class V>
  static V map(V v) {
    return v;
  }
  template <class V>
  static V fold(V a, V b) {
    return add_wrapped(a, b);
  }
};
struct SumSquaresOp : SumOp {
  template <class V>
  static V map(V v) {
    return v * v;
  }
};
struct SumAbsOp : SumOp {
  template <class V>
  static V map(V v) {
    return v < 0 ? -v : v;
  }
};
struct NonzeroOp : SumOp {
  static constexpr bool kCounts = true;
};
struct ProdOp : SumOp {
  static constexpr bool kSmall = false;
  template <class V>
  static V identity() {
    return V(1);
  }
  template <class V>
  static V fold(V a, V b) {
    if constexpr (is_float<V>)
      return a * b;
    else
      return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
// A NaN wins over every number.
struct MaxOp : SumOp {
  template <class V>
  static V identity() {
    if constexpr (is_float<V>)
      return -static_cast<V>(HUGE_VAL);
    else if constexpr (sizeof(V) == 4)
      return static_cast<V>(-2147483647 - 1);
    else
      return static_cast<V>(-9223372036854775807LL - 1);
  }
  template <class V>
  static V fold(V a, V b) {
    return (a > b) | (a != a) ? a : b;
  }
};
struct MinOp : SumOp {
  template <class V>
  static V identity() {
    if constexpr (is_float<V>)
      return static_cast<V>(HUGE_VAL);
    else if constexpr (sizeof(V) == 4)
      return static_cast<V>(2147483647);
    else
      return static_cast<V>(9223372036854775807LL);
  }
  template <class V>
  static V fold(V a, V b) {
    return (a < b) | (a != a) ? a : b;
  }
};
struct MaxAbsOp : MaxOp {
  template <class V>
  static V identity() {
    return V(0);
  }
  template <class V>
  static V map(V v) {
    return v < 0 ? -v : v;
  }
};
struct MinAbsOp : MinOp {
  template <class V>
  static V map(V v) {
    return v < 0 ? -v : v;
  }
};

template <class Op>
struct Simple {
  using W = select_t<Op::kCounts, int64_t, Wide>;
  using Few =
      select_t<Op::kCounts || (!kFloating && Op::kSmall && sizeof(Element) <= 2), int32_t, Exact>;
  W value;

  void init() { value = Op::template identity<W>(); }
  static Few term(Computed v) {
    if constexpr (Op::kCounts)
      return v != Computed(0);
    else
      return Op::map(static_cast<Few>(v));
  }
  template <int N>
  void add(const Computed* v, Places, const ReduceArgs&) {
    Few few[N];
    COGRAD_UNROLL
    for (int j = 0; j < N; ++j) few[j] = term(v[j]);
    COGRAD_UNROLL
    for (int half = N / 2; half > 0; half /= 2) {
      COGRAD_UNROLL
      for (int j = 0; j < half; ++j) few[j] = Op::fold(few[j], few[j + half]);
    }
    value = Op::fold(value, static_cast<W>(few[0]));
  }
  void merge(const Simple& o) { value = Op::fold(value, o.value); }
  void finish(const ReduceArgs& a, int64_t at) const {
    if (a.finish == kAllTrue) return store_as(a.out, a.y, at, int64_t{value == W(a.terms)});
    if (a.finish == kAnyTrue) return store_as(a.out, a.y, at, int64_t{value != W(0)});
    if (a.finish == kPlain) return store_as(a.out, a.y, at, value);
    const double v = static_cast<double>(value);
    if (a.finish == kMean) return store_as(a.out, a.y, at, v / static_cast<double>(a.terms));
    store_as(a.out, a.y, at, sqrt(v));
  }
};
using Sum = Simple<SumOp>;
using Prod = Simple<ProdOp>;
using Min = Simple<MinOp>;
using Max = Simple<MaxOp>;
using Nonzero = Simple<NonzeroOp>;
using SumSquares = Simple<SumSquaresOp>;
using SumAbs = Simple<SumAbsOp>;
using MaxAbs = Simple<MaxAbsOp>;
using MinAbs = Simple<MinAbsOp>;

struct PowerSum {
  double value;
  void init() { value = 0; }
  template <int N>
  void add(const Computed* v, Places, const ReduceArgs& a) {
    for (int j = 0; j < N; ++j) value += pow(abs(static_cast<double>(v[j])), a.p);
  }
  void merge(const PowerSum& o) { value += o.value; }
  void finish(const ReduceArgs& a, int64_t at) const {
    store_as(a.out, a.y, at, pow(value, 1 / a.p));
  }
};

// The extreme and its first position; NaN wins.
template <class Op>
struct Extreme {
  Exact value;
  int64_t index;  // -1: none seen

  void init() {
    value = Exact(0);
    index = -1;
  }
  static bool better(Exact a, Exact b) {
    return b == b && (a != a || (a != b && Op::fold(a, b) == a));
  }
  static bool same(Exact a, Exact b) { return a == b || (a != a && b != b); }
  void take(Exact v, int64_t at) {
    if (at < 0) return;
    if (index < 0 || better(v, value) || (same(v, value) && at < index)) {
      value = v;
      index = at;
    }
  }
  template <int N>
  void add(const Computed* v, Places p, const ReduceArgs&) {
    COGRAD_UNROLL
    for (int j = 0; j < N; ++j) take(static_cast<Exact>(v[j]), p.at(j));
  }
  void merge(const Extreme& o) { take(o.value, o.index); }
  void finish(const ReduceArgs& a, int64_t at) const {
    if (a.y != nullptr) store_as(a.out, a.y, at, value);
    if (a.second != nullptr) static_cast<int64_t*>(a.second)[at] = index;
  }
};
using ArgMax = Extreme<MaxOp>;
using ArgMin = Extreme<MinOp>;

// The sum of exp(x - max). An infinite maximum counts as 0 in the difference.
template <class E>
struct LogSumExpOf {
  E max;
  double sum;
  void init() {
    max = -static_cast<E>(HUGE_VAL);
    sum = 0;
  }
  static E shift(E m) { return isfinite(m) ? m : E(0); }
  void raise(E m) {
    if (m == max) return;
    sum *= exp(static_cast<double>(max) - static_cast<double>(m));
    max = m;
  }
  template <int N>
  void add(const Computed* v, Places, const ReduceArgs&) {
    E m = max, few = 0;
    COGRAD_UNROLL
    for (int j = 0; j < N; ++j) m = m >= v[j] || v[j] != v[j] ? m : v[j];
    raise(m);
    COGRAD_UNROLL
    for (int j = 0; j < N; ++j) few += exp(v[j] - shift(m));
    sum += static_cast<double>(few);
  }
  void merge(const LogSumExpOf& o) {
    LogSumExpOf b = o;
    if (b.max > max)
      raise(b.max);
    else
      b.raise(max);
    sum += b.sum;
  }
  void finish(const ReduceArgs& a, int64_t at) const {
    store_as(a.out, a.y, at, sum == 0 ? -HUGE_VAL : log(sum) + static_cast<double>(shift(max)));
  }
};
using LogSumExp = LogSumExpOf<Exact>;

// Count, mean and sum of squared distances from it, by Chan's formula for joining two of them.
template <class E>
struct VarOf {
  double count, mean, m2;
  void init() { count = mean = m2 = 0; }
  void join(double n, double m, double q) {
    if (n == 0) return;
    if (count == 0) {
      count = n;
      mean = m;
      m2 = q;
      return;
    }
    const double total = count + n, delta = m - mean;
    double part;
    if constexpr (sizeof(E) == 8)
      part = n / total;
    else  // one in float is exact enough: it only scales the difference
      part = static_cast<double>(static_cast<float>(n) / static_cast<float>(total));
    const double joined = mean + delta * part;
    m2 += q + delta * delta * (count * part);
    // It is NaN after inf - inf; the sum of the means is then infinite, or rightly NaN.
    mean = joined == joined ? joined : mean + m;
    count = total;
  }
  template <int N>
  void add(const Computed* v, Places, const ReduceArgs&) {
    E sum = 0, rest = 0, squares = 0;
    COGRAD_UNROLL
    for (int j = 0; j < N; ++j) sum += v[j];
    const E center = sum * (E(1) / N);
    COGRAD_UNROLL
    for (int j = 0; j < N; ++j) {
      const E d = v[j] - center;
      rest += d;
      squares += d * d;
    }
    if (isfinite(squares)) {
      const double r = static_cast<double>(rest) / N;
      const double q = static_cast<double>(squares) - N * r * r;
      return join(N, static_cast<double>(center) + r, q < 0 ? 0 : q);
    }
    // Squares overflow, or something is not finite: then the mean becomes the sum.
    double m = 0, q = 0, all = 0;
    for (int j = 0; j < N; ++j) {
      const double x = static_cast<double>(v[j]), d = x - m;
      m += d / (j + 1);
      q += d * (x - m);
      all += x;
    }
    join(N, m == m ? m : all, !(q >= 0) && isfinite(all) ? HUGE_VAL : q);
  }
  void merge(const VarOf& o) { join(o.count, o.mean, o.m2); }
  void finish(const ReduceArgs& a, int64_t at) const {
    const double left = static_cast<double>(a.terms) - a.q, v = m2 / (left > 0 ? left : 0.0);
    store_as(a.out, a.y, at, a.finish == kRoot2 ? sqrt(v) : v);
    if (a.second != nullptr)
      store_as(a.out, a.second, at, a.terms == 0 ? HUGE_VAL - HUGE_VAL : mean);
  }
};
using Var = VarOf<Exact>;

// The first position of an element that a test finds.
template <class Test>
struct First {
  int64_t index;  // the number of terms or more: none
  void init() { index = 9223372036854775807LL; }
  template <int N>
  void add(const Computed* v, Places p, const ReduceArgs& a) {
    for (int j = 0; j < N; ++j)
      if (Test::finds(v[j], a) && p.at(j) < index) index = p.at(j);
  }
  void merge(const First& o) {
    if (o.index < index) index = o.index;
  }
  void finish(const ReduceArgs& a, int64_t at) const {
    static_cast<int64_t*>(a.y)[at] = index < a.terms ? index : -1;
  }
};
struct OutsideTest {
  static bool finds(Computed v, const ReduceArgs& a) {
    const double x = static_cast<double>(v);
    return !(x >= a.p && x <= a.q);
  }
};
// p: the index that is ignored, q: the number of classes.
struct BadTargetTest {
  static bool finds(Computed v, const ReduceArgs& a) {
    const int64_t t = static_cast<int64_t>(v);
    return t != static_cast<int64_t>(a.p) && (t < 0 || t >= static_cast<int64_t>(a.q));
  }
};
struct NonzeroTest {
  static bool finds(Computed v, const ReduceArgs&) { return v != Computed(0); }
};
struct NanTest {
  static bool finds(Computed v, const ReduceArgs&) { return isnan(v); }
};
struct InfTest {
  static bool finds(Computed v, const ReduceArgs&) { return isposinf(v) || isneginf(v); }
};
struct NonfiniteTest {
  static bool finds(Computed v, const ReduceArgs&) { return !isfinite(v); }
};
using FirstOutside = First<OutsideTest>;
using FirstBadTarget = First<BadTargetTest>;
using FirstNonzero = First<NonzeroTest>;
using FirstNan = First<NanTest>;
using FirstInf = First<InfTest>;
using FirstNonfinite = First<NonfiniteTest>;

}  // namespace cograd::device
