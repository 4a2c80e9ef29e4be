// SPDX-License-Identifier: BSD-3-Clause
// Scans: -DCOGRAD_T is the dtype's type, -DCOGRAD_SCAN the operation. Long lines are cut in chunks:
// one kernel computes their totals, one what comes before each, and one scans them. So the order of
// additions depends on the sizes and the GPU alone. The bound is the memory's bandwidth.
#pragma once
#include "cuda/args/scan_args.h"
#include "functions.h"

namespace cograd::device {

using Element = COGRAD_T;
using Computed = compute_t<Element>;
inline constexpr bool kReal = is_float<Computed>;
template <class T>
struct AccOf {  // integers wrap
  using type = select_t<kReal, T, int64_t>;
};
template <class T>
struct AccOf<Complex<T>> {
  using type = Complex<double>;
};
// Sums of float32 are kept in double, as on the CPU.
using Acc = select_t<is_same<Element, float>, double, typename AccOf<Computed>::type>;

inline Acc acc_of(Computed v) { return Acc(v); }
template <class A>
inline A sum_of(A a, A b) {
  if constexpr (is_same<A, int64_t>)
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <class A>
inline A product_of(A a, A b) {
  if constexpr (is_same<A, int64_t>)
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}
inline void put(const ScanArgs& a, int64_t i, Acc v) {
  static_cast<Element*>(a.y)[i] = Element(static_cast<Computed>(v));
}

struct CumSum {
  Acc v;
  static CumSum none() { return {Acc(0)}; }
  static CumSum of(Computed x, int64_t) { return {acc_of(x)}; }
  CumSum then(CumSum b) const { return {sum_of(v, b.v)}; }
  void store(const ScanArgs& a, int64_t i) const { put(a, i, v); }
};

// A product v * unit^e of real numbers. Its parts do not overflow where the product does not: the
// pieces of a line are multiplied in another order than one after the other.
template <class A>
struct ScaledProduct {
  A v;
  int64_t e;
  static A unit() { return sizeof(A) == 4 ? A(4294967296.0) : A(1.157920892373162e77); }
  void scale() {
    for (int k = 0; k < 4; ++k) {
      const A size = abs(v);
      if (size >= unit()) {
        v *= A(1) / unit();
        ++e;
      } else if (size != A(0) && size * unit() < A(1)) {
        v *= unit();
        --e;
      }
    }
  }
  static ScaledProduct none() { return {A(1), 0}; }
  static ScaledProduct of(Computed x, int64_t) {
    ScaledProduct s{acc_of(x), 0};
    s.scale();
    return s;
  }
  ScaledProduct then(ScaledProduct b) const {
    ScaledProduct s{v * b.v, e + b.e};
    s.scale();
    return s;
  }
  void store(const ScanArgs& a, int64_t i) const {
    A r = v;
    for (int64_t k = e; k > 0 && k > e - 9; --k) r *= unit();
    for (int64_t k = e; k < 0 && k < e + 9; ++k) r *= A(1) / unit();
    put(a, i, r);
  }
};
struct PlainProduct {
  Acc v;
  static PlainProduct none() { return {Acc(1)}; }
  static PlainProduct of(Computed x, int64_t) { return {acc_of(x)}; }
  PlainProduct then(PlainProduct b) const { return {product_of(v, b.v)}; }
  void store(const ScanArgs& a, int64_t i) const { put(a, i, v); }
};
using CumProd = select_t<kReal, ScaledProduct<Acc>, PlainProduct>;

template <class A>
struct LogSum {
  A v;
  static LogSum none() { return {-static_cast<A>(HUGE_VAL)}; }
  static LogSum of(Computed x, int64_t) { return {static_cast<A>(x)}; }
  // Equal infinities are returned unchanged.
  LogSum then(LogSum b) const {
    const double p = static_cast<double>(v), q = static_cast<double>(b.v);
    if (p != p || q != q) return {static_cast<A>(p + q)};
    const double hi = p > q ? p : q, lo = p > q ? q : p;
    return {static_cast<A>(isfinite(hi) ? hi + log1p(exp(lo - hi)) : hi)};
  }
  void store(const ScanArgs& a, int64_t i) const { put(a, i, v); }
};
using LogCumSumExp = LogSum<Acc>;

// The extreme and where it was last reached; NaN wins and stays.
template <class T, bool kMax>
struct Running {
  T v;
  int64_t at;  // -1: nothing yet
  static Running none() { return {T(0), -1}; }
  static Running of(T x, int64_t i) { return {x, i}; }
  Running then(Running b) const {
    if (at < 0) return b;
    if (b.at < 0 || (v != v && b.v == b.v)) return *this;
    return b.v != b.v || (kMax ? b.v >= v : b.v <= v) ? b : *this;
  }
  void store(const ScanArgs& a, int64_t i) const {
    static_cast<Element*>(a.y)[i] = Element(v);
    a.indices[i] = at;
  }
};
using CumMax = Running<Computed, true>;
using CumMin = Running<Computed, false>;

using State = COGRAD_SCAN;

inline State read(const ScanArgs& a, int64_t at, int64_t i) {
  return State::of(load(static_cast<const Element*>(a.x), at), i);
}
// Returns the position of element i of a line.
struct Line {
  int64_t first, step;
  Line(const ScanArgs& a, int64_t line) {
    const int64_t o = line / a.inner;
    first = o * a.n * a.inner + (line - o * a.inner);
    step = a.inner;
    if (a.reverse) {
      first += (a.n - 1) * a.inner;
      step = -step;
    }
  }
  int64_t at(int64_t i) const { return first + i * step; }
};
inline int64_t end_of(const ScanArgs& a, int64_t chunk) {
  const int64_t end = (chunk + 1) * a.chunk;
  return end < a.n ? end : a.n;
}
inline State* partial_of(const ScanArgs& a) { return static_cast<State*>(a.partial); }

constexpr int kEach = 4;  // elements of a thread in a round

// A block scans chunks of lines whose elements are adjacent. Without kWrites it computes totals.
template <bool kWrites>
inline void scan_rows_of(const ScanArgs& a) {
  constexpr int kWarps = kScanThreads / 32;
  COGRAD_SHARED uint64_t room[kWarps * ((sizeof(State) + 7) / 8)];
  State* shared = reinterpret_cast<State*>(room);
  const int64_t works = a.outer * a.chunks;
  for (int64_t work = blockIdx.x; work < works; work += gridDim.x) {
    const int64_t line = work / a.chunks, chunk = work - line * a.chunks, hi = end_of(a, chunk);
    const Line l(a, line);
    State carry = kWrites && a.chunks > 1 ? partial_of(a)[work] : State::none();
    for (int64_t lo = chunk * a.chunk; lo < hi; lo += kScanThreads * kEach) {
      const int64_t mine = lo + static_cast<int64_t>(threadIdx.x) * kEach;
      State s[kEach];
      COGRAD_UNROLL
      for (int k = 0; k < kEach; ++k) {
        const State one = mine + k < hi ? read(a, l.at(mine + k), mine + k) : State::none();
        s[k] = k == 0 ? one : s[k - 1].then(one);
      }
      State all = s[kEach - 1];  // of the lanes up to this one
      for (int d = 1; d < 32; d *= 2) {
        const State before = shuffle_up(all, d);
        if (lane() >= d) all = before.then(all);
      }
      State before = shuffle_up(all, 1);
      if (lane() == 0) before = State::none();
      __syncthreads();  // the round before may still read
      if (lane() == 31) shared[warp()] = all;
      __syncthreads();
      State prefix = carry;
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp()) prefix = prefix.then(shared[w]);
        carry = carry.then(shared[w]);
      }
      prefix = prefix.then(before);
      if constexpr (kWrites) {
        COGRAD_UNROLL
        for (int k = 0; k < kEach; ++k)
          if (mine + k < hi) prefix.then(s[k]).store(a, l.at(mine + k));
      }
    }
    if (!kWrites && threadIdx.x == 0) partial_of(a)[work] = carry;
  }
}
COGRAD_BLOCK_KERNEL(scan_row_totals, ScanArgs, kScanThreads) { scan_rows_of<false>(a); }
COGRAD_BLOCK_KERNEL(scan_rows, ScanArgs, kScanThreads) { scan_rows_of<true>(a); }

// A thread scans a chunk of a line; its neighbours have the lines beside it.
template <bool kWrites>
inline void scan_columns_of(const ScanArgs& a) {
  const int64_t lines = a.outer * a.inner;
  for (int64_t work = grid_index(); work < lines * a.chunks; work += grid_size()) {
    const int64_t chunk = work / lines, line = work - chunk * lines, hi = end_of(a, chunk);
    const Line l(a, line);
    State* mine = partial_of(a) + line * a.chunks + chunk;
    State s = kWrites && a.chunks > 1 ? *mine : State::none();
    for (int64_t i = chunk * a.chunk; i < hi; ++i) {
      s = s.then(read(a, l.at(i), i));
      if constexpr (kWrites) s.store(a, l.at(i));
    }
    if (!kWrites) *mine = s;
  }
}
COGRAD_KERNEL(scan_column_totals, ScanArgs, kScanThreads) { scan_columns_of<false>(a); }
COGRAD_KERNEL(scan_columns, ScanArgs, kScanThreads) { scan_columns_of<true>(a); }

// Replaces each chunk's total by what comes before the chunk.
COGRAD_KERNEL(scan_carries, ScanArgs, kScanThreads) {
  for (int64_t line = grid_index(); line < a.outer * a.inner; line += grid_size()) {
    State before = State::none();
    for (int64_t c = 0; c < a.chunks; ++c) {
      State* p = partial_of(a) + line * a.chunks + c;
      const State total = *p;
      *p = before;
      before = before.then(total);
    }
  }
}

// s[k] = x[k] + factor[k] * s[k - 1], one after the other: products of factors may overflow where
// the sequence does not.
COGRAD_KERNEL(recurrence, ScanArgs, kScanThreads) {
  for (int64_t line = grid_index(); line < a.outer * a.inner; line += grid_size()) {
    const Line l(a, line);
    Acc s = acc_of(load(static_cast<const Element*>(a.x), l.at(0)));
    put(a, l.at(0), s);
    for (int64_t i = 1; i < a.n; ++i) {
      const Acc f = acc_of(load(static_cast<const Element*>(a.factor), l.at(i)));
      s = sum_of(acc_of(load(static_cast<const Element*>(a.x), l.at(i))), product_of(f, s));
      put(a, l.at(i), s);
    }
  }
}

}  // namespace cograd::device
