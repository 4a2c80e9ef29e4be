// SPDX-License-Identifier: BSD-3-Clause
// Leaf loops of the simple reductions and of argmin/argmax; compiled once per instruction set.
#include "kernels/reduce/reduce_leaf.h"

#include <algorithm>
#include <limits>

#include "kernels/reduce/reduce_vec.h"

namespace cograd::kernels::COGRAD_ISA {

ReduceLeaf stat_leaf(LeafOp op, bool single);  // reduce_stat.cpp

namespace {

// Each lane of a block adds at most a few hundred terms in the accumulator's precision.
constexpr int64_t kBlock = 4096;
constexpr int64_t kGather = 512;   // elements widened at a time
constexpr int64_t kTile = 1024;    // columns folded together
constexpr int64_t kRowsMax = 256;  // rows folded in accumulator precision

// map() turns an element into a term, and fold() combines terms; both accept scalars and vectors.
// Integers wrap: scalars through unsigned arithmetic, vectors by nature.
struct SumOp {
  template <class A>
  static A identity() {
    return A(0);
  }
  template <class V>
  static COGRAD_INLINE V map(V v) {
    return v;
  }
  template <class V>
  static COGRAD_INLINE V fold(V a, V b) {
    if constexpr (std::is_same_v<V, int64_t>) {
      return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
};
struct SquareOp : SumOp {
  template <class V>
  static COGRAD_INLINE V map(V v) {
    return v * v;
  }
};
struct AbsSumOp : SumOp {
  template <class V>
  static COGRAD_INLINE V map(V v) {
    return v < 0 ? -v : v;
  }
};
struct ProdOp : SumOp {
  template <class A>
  static A identity() {
    return A(1);
  }
  template <class V>
  static COGRAD_INLINE V fold(V a, V b) {
    if constexpr (std::is_same_v<V, int64_t>) {
      return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
struct MaxOp : SumOp {
  template <class A>
  static A identity() {
    if constexpr (std::is_integral_v<A>)
      return std::numeric_limits<A>::min();
    else
      return -std::numeric_limits<A>::infinity();
  }
  // b wins if it is NaN (a > b is false); a NaN in a is kept by a != a.
  template <class V>
  static COGRAD_INLINE V fold(V a, V b) {
    return (a > b) | (a != a) ? a : b;
  }
};
struct MinOp : SumOp {
  template <class A>
  static A identity() {
    if constexpr (std::is_integral_v<A>)
      return std::numeric_limits<A>::max();
    else
      return std::numeric_limits<A>::infinity();
  }
  template <class V>
  static COGRAD_INLINE V fold(V a, V b) {
    return (a < b) | (a != a) ? a : b;
  }
};
struct AbsMaxOp : MaxOp {
  template <class A>
  static A identity() {
    return A(0);
  }
  template <class V>
  static COGRAD_INLINE V map(V v) {
    return v < 0 ? -v : v;
  }
};
struct AbsMinOp : MinOp {
  template <class V>
  static COGRAD_INLINE V map(V v) {
    return v < 0 ? -v : v;
  }
};

// Folds the whole vectors among n elements, at least one, into one vector.
template <class Op, class A, int L = kLanes<A>>
COGRAD_INLINE Vec<A, L> fold_vectors(const A* p, int64_t n) {
  using V = Vec<A, L>;
  int64_t i = 0;
  V a0 = V{} + Op::template identity<A>();
  V a1 = a0, a2 = a0, a3 = a0;
  for (; i + 4 * L <= n; i += 4 * L) {
    a0 = Op::fold(a0, Op::map(load(p + i)));
    a1 = Op::fold(a1, Op::map(load(p + i + L)));
    a2 = Op::fold(a2, Op::map(load(p + i + 2 * L)));
    a3 = Op::fold(a3, Op::map(load(p + i + 3 * L)));
  }
  for (; i + L <= n; i += L) a0 = Op::fold(a0, Op::map(load(p + i)));
  return Op::fold(Op::fold(a0, a1), Op::fold(a2, a3));
}

template <class Op>
struct Fold {
  template <class V>
  COGRAD_INLINE V operator()(V a, V b) const {
    return Op::fold(a, b);
  }
};

// Folds one block of at most kBlock elements.
template <class Op, class A>
Wide<A> fold_block(const A* p, int64_t n) {
  constexpr int64_t L = kLanes<A>;
  Wide<A> total = Op::template identity<A>();
  if (n >= L) total = join_lanes<A, L>(fold_vectors<Op>(p, n), Fold<Op>());
  for (int64_t i = n / L * L; i < n; ++i) {
    asm volatile("");  // keeps products from vectors, where they would not fuse with the addition
    total = Op::fold(total, static_cast<Wide<A>>(Op::map(p[i])));
  }
  return total;
}

// Folds four blocks, `step` elements apart, with the results of fold_block: the last joins and the
// last elements of all four are computed side by side.
template <class Op, class A>
COGRAD_INLINE Vec<Wide<A>, 4> fold_four_blocks(const A* p, int64_t step, int64_t n) {
  using W = Wide<A>;
  constexpr int64_t L = kLanes<A>;
  Vec<W, 4> total = Vec<W, 4>{} + Op::template identity<W>();
  if (n >= L)
    total = join_four<A, L>(fold_vectors<Op>(p, n), fold_vectors<Op>(p + step, n),
                            fold_vectors<Op>(p + 2 * step, n), fold_vectors<Op>(p + 3 * step, n),
                            Fold<Op>());
  for (int64_t i = n / L * L; i < n; ++i) {
    const Vec<A, 4> last = {p[i], p[i + step], p[i + 2 * step], p[i + 3 * step]};
    total = Op::fold(total, __builtin_convertvector(Op::map(last), Vec<W, 4>));
  }
  return total;
}

// Calls f(pointer, count, position) for contiguous pieces of a row.
template <class A, class F>
COGRAD_INLINE void for_blocks(const ReduceLeaf& leaf, const char* x, int64_t n, int64_t stride,
                              F&& f) {
  alignas(64) A buffer[kGather];
  const bool direct = leaf.native && stride == static_cast<int64_t>(sizeof(A));
  const int64_t step = direct ? kBlock : kGather;
  for (int64_t i = 0; i < n; i += step) {
    const int64_t m = std::min(step, n - i);
    const A* p = buffer;
    if (direct) {
      p = reinterpret_cast<const A*>(x) + i;
    } else {
      leaf.widen(x + i * stride, m, stride, buffer);
    }
    f(p, m, i);
  }
}

// Folds four rows of m elements into acc[j].
template <class Op, class A>
void fold_rows(A* acc, const A* p0, const A* p1, const A* p2, const A* p3, int64_t m) {
  constexpr int L = kLanes<A>;
  int64_t j = 0;
  for (; j + L <= m; j += L) {
    Vec<A, L> a = load(acc + j);
    a = Op::fold(a, Op::map(load(p0 + j)));
    a = Op::fold(a, Op::map(load(p1 + j)));
    a = Op::fold(a, Op::map(load(p2 + j)));
    a = Op::fold(a, Op::map(load(p3 + j)));
    store<A, L>(acc + j, a);
  }
  for (; j < m; ++j) {
    const A a = Op::fold(Op::fold(acc[j], Op::map(p0[j])), Op::map(p1[j]));
    acc[j] = Op::fold(Op::fold(a, Op::map(p2[j])), Op::map(p3[j]));
  }
}

template <class Op, class A>
struct Simple {
  using W = Wide<A>;
  static void init(void* state, int64_t count) {
    std::fill_n(static_cast<W*>(state), count, static_cast<W>(Op::template identity<A>()));
  }
  static void row(const ReduceLeaf& leaf, void* state, const char* x, int64_t n, int64_t stride,
                  int64_t) {
    W total = *static_cast<W*>(state);
    for_blocks<A>(leaf, x, n, stride, [&](const A* p, int64_t m, int64_t) {
      total = Op::fold(total, fold_block<Op, A>(p, m));
    });
    *static_cast<W*>(state) = total;
  }
  static void rows(const ReduceLeaf& leaf, void* states, const char* x, int64_t count,
                   int64_t row_stride, int64_t n, int64_t stride) {
    W* s = static_cast<W*>(states);
    constexpr auto kSize = static_cast<int64_t>(sizeof(A));
    int64_t i = 0;
    if constexpr (kLanes<W> >= 4)
      if (leaf.native && stride == kSize && n <= kBlock && row_stride % kSize == 0)
        for (; i + 4 <= count; i += 4) {
          const A* p = reinterpret_cast<const A*>(x + i * row_stride);
          Vec<W, 4> total;
          std::memcpy(&total, s + i, sizeof total);
          total = Op::fold(total, fold_four_blocks<Op>(p, row_stride / kSize, n));
          std::memcpy(s + i, &total, sizeof total);
        }
    for (; i < count; ++i) row(leaf, s + i, x + i * row_stride, n, stride, 0);
  }
  static void col(const ReduceLeaf& leaf, void* state, const char* x, int64_t m, int64_t rows,
                  int64_t row_stride, int64_t) {
    W* s = static_cast<W*>(state);
    alignas(64) A acc[kTile];
    alignas(64) A wide[4][kGather];
    const int64_t tile = leaf.native ? kTile : kGather;
    for (int64_t j = 0; j < m; j += tile) {
      const int64_t w = std::min(tile, m - j);
      for (int64_t r = 0; r < rows; r += kRowsMax) {
        const int64_t end = std::min(rows, r + kRowsMax);
        std::fill_n(acc, w, Op::template identity<A>());
        for (int64_t q = r; q < end; q += 4) {
          const int64_t left = end - q;
          const A* p[4];
          for (int k = 0; k < 4 && k < left; ++k) {
            const char* src = x + (q + k) * row_stride + j * leaf.itemsize;
            p[k] = leaf.native ? reinterpret_cast<const A*>(src) : wide[k];
            if (!leaf.native) leaf.widen(src, w, leaf.itemsize, wide[k]);
          }
          if (left >= 4) {
            fold_rows<Op, A>(acc, p[0], p[1], p[2], p[3], w);
          } else {
            for (int k = 0; k < left; ++k) {
              for (int64_t i = 0; i < w; ++i) acc[i] = Op::fold(acc[i], Op::map(p[k][i]));
            }
          }
        }
        for (int64_t i = 0; i < w; ++i) s[j + i] = Op::fold(s[j + i], static_cast<W>(acc[i]));
      }
    }
  }
  static void merge(void* state, const void* other, int64_t count) {
    W* s = static_cast<W*>(state);
    const W* o = static_cast<const W*>(other);
    for (int64_t i = 0; i < count; ++i) s[i] = Op::fold(s[i], o[i]);
  }
  static ReduceLeaf leaf() { return {sizeof(W), init, row, rows, col, merge}; }
};

// Sums real and imaginary parts of contiguous complex numbers.
template <class A>
struct PairSum {
  using Pair = Vec<double, 2>;
  template <class B, int L>
  static COGRAD_INLINE Pair join(Vec<B, L> v) {
    if constexpr (std::is_same_v<B, double> && L == 2)
      return v;
    else
      return join<double, L / 2>(fold_halves<B, L>(v, Fold<SumOp>()));
  }
  static void init(void* state, int64_t count) {
    std::fill_n(static_cast<double*>(state), 2 * count, 0.0);
  }
  static void row(const ReduceLeaf&, void* state, const char* x, int64_t n, int64_t, int64_t) {
    constexpr int64_t L = kLanes<A>;
    const A* p = reinterpret_cast<const A*>(x);
    auto* total = static_cast<double*>(state);
    for (int64_t i = 0; i < n; i += kBlock, p += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      if (m >= L) {
        const Pair sums = join<A, L>(fold_vectors<SumOp>(p, m));
        total[0] += sums[0];
        total[1] += sums[1];
      }
      for (int64_t j = m / L * L; j < m; ++j) total[j % 2] += static_cast<double>(p[j]);
    }
  }
  static ReduceLeaf leaf() { return {2 * sizeof(double), init, row}; }
};

// Counts non-zeros of an unsigned bit pattern U under leaf.magnitude_mask; the state is int64.
template <class U>
struct Nonzero {
  static int64_t count_block(const char* x, int64_t n, U mask) {
    constexpr int L = kLanes<U>;
    using V = Vec<U, L>;
    // Counters of width U overflow only for bytes, after 255 rounds.
    const int64_t rounds = sizeof(U) == 1 ? 255 : 4096;
    int64_t total = 0, i = 0;
    while (i + L <= n) {
      V c{};
      const int64_t end = std::min(n, i + L * rounds);
      for (; i + L <= end; i += L) {
        V v;
        std::memcpy(&v, x + i * static_cast<int64_t>(sizeof(U)), sizeof v);
        c -= reinterpret_cast<V>((v & mask) != 0);
      }
      for (int k = 0; k < L; ++k) total += static_cast<int64_t>(c[k]);
    }
    for (; i < n; ++i) total += at(x + i * static_cast<int64_t>(sizeof(U)), mask);
    return total;
  }
  static bool at(const char* x, U mask) {
    U v;
    std::memcpy(&v, x, sizeof v);
    return (v & mask) != 0;
  }
  static void init(void* state, int64_t count) {
    std::fill_n(static_cast<int64_t*>(state), count, int64_t{0});
  }
  static void row(const ReduceLeaf& leaf, void* state, const char* x, int64_t n, int64_t stride,
                  int64_t) {
    auto* s = static_cast<int64_t*>(state);
    const U mask = static_cast<U>(leaf.magnitude_mask);
    if (stride == static_cast<int64_t>(sizeof(U))) {
      *s += count_block(x, n, mask);
    } else {
      for (int64_t i = 0; i < n; ++i) *s += at(x + i * stride, mask);
    }
  }
  static void col(const ReduceLeaf& leaf, void* state, const char* x, int64_t m, int64_t rows,
                  int64_t row_stride, int64_t) {
    auto* s = static_cast<int64_t*>(state);
    const U mask = static_cast<U>(leaf.magnitude_mask);
    uint8_t acc[kTile];
    for (int64_t j = 0; j < m; j += kTile) {
      const int64_t w = std::min(kTile, m - j);
      for (int64_t r = 0; r < rows; r += 255) {
        std::fill_n(acc, w, uint8_t{0});
        const int64_t end = std::min(rows, r + 255);
        for (int64_t q = r; q < end; ++q) {
          const U* p = reinterpret_cast<const U*>(x + q * row_stride) + j;
          for (int64_t i = 0; i < w; ++i) {
            acc[i] = static_cast<uint8_t>(acc[i] + ((p[i] & mask) != 0));
          }
        }
        for (int64_t i = 0; i < w; ++i) s[j + i] += acc[i];
      }
    }
  }
  static void merge(void* state, const void* other, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      static_cast<int64_t*>(state)[i] += static_cast<const int64_t*>(other)[i];
    }
  }
  static ReduceLeaf leaf() { return {sizeof(int64_t), init, row, nullptr, col, merge}; }
};

// Finds the position of the extreme. Folds a block first and searches it only if it improves the
// state.
template <class Op, class A>
struct Arg {
  using W = Wide<A>;
  using State = ArgState<W>;
  static bool better(W a, W b) { return b == b && (a != a || (a != b && Op::fold(a, b) == a)); }

  static void init(void* state, int64_t count) {
    std::fill_n(static_cast<State*>(state), count,
                State{static_cast<W>(Op::template identity<A>()), -1});
  }
  static void update(State& s, W v, int64_t index) {
    if (s.index < 0 || better(v, s.value)) s = State{v, index};
  }
  static void row(const ReduceLeaf& leaf, void* state, const char* x, int64_t n, int64_t stride,
                  int64_t index0) {
    State& s = *static_cast<State*>(state);
    for_blocks<A>(leaf, x, n, stride, [&](const A* p, int64_t m, int64_t i0) {
      const W v = fold_block<Op, A>(p, m);
      if (s.index >= 0 && !better(v, s.value)) return;
      s = State{v, index0 + i0 + find(p, m, static_cast<A>(v))};
    });
  }
  // Returns the first position of v, which must be present; NaN finds NaN.
  static int64_t find(const A* p, int64_t n, A v) {
    constexpr int64_t kStep = 64;
    const auto same = [v](A a) { return v == v ? a == v : a != a; };
    int64_t i = 0;
    for (; v == v && i + kStep <= n; i += kStep) {
      int hits = 0;
      for (int64_t j = 0; j < kStep; ++j) hits += p[i + j] == v;
      if (hits != 0) break;
    }
    while (!same(p[i])) ++i;
    return i;
  }
  static void col(const ReduceLeaf& leaf, void* state, const char* x, int64_t m, int64_t rows,
                  int64_t row_stride, int64_t index0) {
    using I = std::conditional_t<sizeof(A) == 4, int32_t, int64_t>;
    constexpr int L = kLanes<A>;
    State* s = static_cast<State*>(state);
    int64_t j = 0;
    for (; j + L <= m; j += L) {
      const char* p = x + j * leaf.itemsize;
      const auto at_row = [&](int64_t r) {
        alignas(64) A wide[L];
        if (leaf.native) return load(reinterpret_cast<const A*>(p + r * row_stride));
        leaf.widen(p + r * row_stride, L, leaf.itemsize, wide);
        return load(wide);
      };
      Vec<A, L> best = at_row(0);
      Vec<I, L> where{};
      for (int64_t r = 1; r < rows; ++r) {
        const Vec<A, L> v = at_row(r);
        // fold keeps a NaN in `best` and prefers v on ties, so test for a real change.
        const auto changed = (Op::fold(best, v) != best) & (best == best);
        where = changed ? Vec<I, L>{} + static_cast<I>(r) : where;
        best = changed ? v : best;
      }
      for (int i = 0; i < L; ++i) update(s[j + i], static_cast<W>(best[i]), index0 + where[i]);
    }
    for (; j < m; ++j) row(leaf, s + j, x + j * leaf.itemsize, rows, row_stride, index0);
  }
  static void merge(void* state, const void* other, int64_t count) {
    State* s = static_cast<State*>(state);
    const State* o = static_cast<const State*>(other);
    for (int64_t i = 0; i < count; ++i) {
      if (o[i].index >= 0) update(s[i], o[i].value, o[i].index);
    }
  }
  static ReduceLeaf leaf() { return {sizeof(State), init, row, nullptr, col, merge}; }
};

template <class T>
void widen(const char* x, int64_t n, int64_t stride, void* out) {
  using A = Acc<T>;
  constexpr int L = kLanes<A>;
  A* o = static_cast<A*>(out);
  int64_t i = 0;
  if (stride == static_cast<int64_t>(sizeof(T))) {
    const T* p = reinterpret_cast<const T*>(x);
    for (; i + L <= n; i += L) store<A, L>(o + i, load(p + i));
  }
  for (; i < n; ++i) o[i] = widened<T>(x + i * stride);
}

template <template <class> class Leaf>
ReduceLeaf by_width(int64_t itemsize) {
  switch (itemsize) {
    case 1:
      return Leaf<uint8_t>::leaf();
    case 2:
      return Leaf<uint16_t>::leaf();
    case 4:
      return Leaf<uint32_t>::leaf();
    default:
      return Leaf<uint64_t>::leaf();
  }
}

template <template <class, class> class Kind, class Op>
ReduceLeaf any_acc(DType t) {
  if (!is_floating(t)) return Kind<Op, int64_t>::leaf();
  return t == DType::Float64 ? Kind<Op, double>::leaf() : Kind<Op, float>::leaf();
}

template <class Op>
ReduceLeaf float_acc(DType t) {
  return t == DType::Float64 ? Simple<Op, double>::leaf() : Simple<Op, float>::leaf();
}

ReduceLeaf loops_of(LeafOp op, DType t) {
  switch (op) {
    case LeafOp::Sum:
      // The sum of bools is their count, which is several times faster.
      return t == DType::Bool ? Nonzero<uint8_t>::leaf() : any_acc<Simple, SumOp>(t);
    case LeafOp::SumPairs:
      return t == DType::Float64 ? PairSum<double>::leaf() : PairSum<float>::leaf();
    case LeafOp::Prod:
      return any_acc<Simple, ProdOp>(t);
    case LeafOp::Min:
      return any_acc<Simple, MinOp>(t);
    case LeafOp::Max:
      return any_acc<Simple, MaxOp>(t);
    case LeafOp::Nonzero:
      return by_width<Nonzero>(dtype_size(t));
    case LeafOp::SumSquares:
      return float_acc<SquareOp>(t);
    case LeafOp::SumAbs:
      return float_acc<AbsSumOp>(t);
    case LeafOp::MaxAbs:
      return float_acc<AbsMaxOp>(t);
    case LeafOp::MinAbs:
      return float_acc<AbsMinOp>(t);
    case LeafOp::ArgMin:
      return any_acc<Arg, MinOp>(t);
    case LeafOp::ArgMax:
      return any_acc<Arg, MaxOp>(t);
    case LeafOp::LogSumExp:
    case LeafOp::Var:
    case LeafOp::PowerSum:
      break;
  }
  return stat_leaf(op, t != DType::Float64);
}

}  // namespace

ReduceLeaf reduce_leaf(LeafOp op, DType t) {
  ReduceLeaf leaf = loops_of(op, t);
  leaf.itemsize = dtype_size(t);
  leaf.native = t == DType::Float32 || t == DType::Float64 || signed_twin(t) == DType::Int64;
  leaf.magnitude_mask = is_floating(t) ? ~(uint64_t{1} << (8 * leaf.itemsize - 1)) : ~uint64_t{0};
  leaf.widen = dispatch_real(t, [](auto tag) { return &widen<typename decltype(tag)::type>; });
  if (t == DType::UInt16) leaf.widen = &widen<uint16_t>;
  if (t == DType::UInt32) leaf.widen = &widen<uint32_t>;
  return leaf;
}

}  // namespace cograd::kernels::COGRAD_ISA
