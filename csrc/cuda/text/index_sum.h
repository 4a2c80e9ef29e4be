// SPDX-License-Identifier: BSD-3-Clause
// Folds all terms with the same target, in the order of the index, so that sums repeat bit by bit:
// the entries are sorted by key, and the thread at the first one of a run adds the run. -DTYPE= is
// the dtype, -DOP= the operation, -DTENSORS= the number of index tensors.
#include "index_place.h"

namespace cograd::device {

using Stored = TYPE;
using C = compute_t<Stored>;

template <class V>
inline V add_values(V x, V y) {
  if constexpr (is_same<V, bool>)
    return x || y;
  else if constexpr (is_float<V> || is_complex_type<V>)
    return x + y;
  else
    return static_cast<V>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
}
template <class V>
inline V multiply_values(V x, V y) {
  if constexpr (is_same<V, bool>)
    return x && y;
  else if constexpr (is_float<V> || is_complex_type<V>)
    return x * y;
  else
    return static_cast<V>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
}
inline C fold(C x, C y) {
#if OP == 1
  return multiply_values(x, y);
#elif OP == 3
  return x > y || x != x ? x : y;
#elif OP == 4
  return x < y || x != x ? x : y;
#else
  return add_values(x, y);
#endif
}
template <class V>
inline V start_value() {
  constexpr uint64_t kTop = uint64_t{1} << (sizeof(V) < 8 ? 8 * sizeof(V) - 1 : 63);
  if constexpr (OP == 1) {
    return V(1);
  } else if constexpr (OP == 3 || OP == 4) {
    if constexpr (is_float<V>)
      return V(OP == 3 ? -INFINITY : INFINITY);
    else if constexpr (is_same<V, bool>)
      return OP == 4;
    else if constexpr (V(-1) > V(0))
      return OP == 3 ? V(0) : V(-1);
    else
      return OP == 3 ? static_cast<V>(kTop) : static_cast<V>(kTop - 1);
  } else {
    return V(0);
  }
}
template <class V>
inline V number_of(double real, int64_t bits) {
  if constexpr (is_complex_type<V>)
    return V(static_cast<typename V::value_type>(real));
  else if constexpr (is_float<V>)
    return V(real);
  else
    return static_cast<V>(bits);
}
template <class V>
inline V scaled(V v, V factor, double real) {
  if constexpr (is_same<V, bool>)
    return v && real != 0;
  else
    return multiply_values(v, factor);
}
template <class V>
inline V mean_of(V sum, int64_t count) {
  if (count < 2) return sum;
  if constexpr (is_float<V>) {
    return sum / static_cast<V>(count);
  } else if constexpr (is_complex_type<V>) {
    return sum / static_cast<typename V::value_type>(count);
  } else {  // rounds down
    const int64_t v = static_cast<int64_t>(sum);
    return static_cast<V>(v / count - (v % count < 0 ? 1 : 0));
  }
}
template <class V>
inline V inverse_of(int64_t count) {
  if constexpr (is_float<V>)
    return V(1) / static_cast<V>(count);
  else
    return V(1);
}

inline int64_t other_of(const SumArgs& a, int64_t entry) {
  IndexPlace p{0, 0, 0, 0, true};
  int64_t index[TENSORS] = {};
  add_position(a.at.dims, a.at.ndim, a.at.n, entry, p, index);
  return p.other;
}
// Returns the end of the run of `key` at `from`, by steps that double and then halve.
inline int64_t run_end(const SumArgs& a, int64_t from, unsigned key) {
  int64_t step = 1, low = from, high = from + 1;
  while (high < a.at.n && a.keys[high] == key) {
    low = high;
    step *= 2;
    high = low + step;
  }
  if (high > a.at.n) high = a.at.n;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (a.keys[middle] == key)
      low = middle;
    else
      high = middle;
  }
  return high;
}
inline C term_of(const SumArgs& a, const char* from, int64_t k) {
  return load(reinterpret_cast<const Stored*>(from + other_of(a, a.order[k])));
}
inline C next_sum(const SumArgs& a, C sum, C term, C scale, bool scales) {
  sum = fold(sum, scales ? scaled(term, scale, a.alpha) : term);
  if constexpr (sizeof(Stored) < sizeof(C))
    if (a.round_each) sum = widen(Stored(sum));
  return sum;
}

// Long runs are bound by latency, so a thread loads several terms before it folds them.
constexpr int kAhead = 8;
COGRAD_KERNEL(sum_runs, SumArgs, 256) {
  const C alpha = number_of<C>(a.alpha, a.alpha_bits);
  for (int64_t i = grid_index(); i < a.at.n * a.slices; i += grid_size()) {
    const int64_t first = i / a.slices;
    const unsigned key = a.keys[first];
    if (first > 0 && a.keys[first - 1] == key) continue;
    if (key >= a.at.space || static_cast<int64_t>(key) == a.skip) continue;
    IndexPlace target = place_of(a.at, a.order[first]), slice{0, 0, 0, 0, true};
    if (!target.ok) continue;  // another stream writes the index
    int64_t unused[TENSORS] = {};
    add_position(a.slice, a.slice_dims, a.slices, i - first * a.slices, slice, unused);
    Stored* to =
        reinterpret_cast<Stored*>(static_cast<char*>(a.at.self) + target.self + slice.self);
    const char* from = static_cast<const char*>(a.at.other) + slice.other;
    const int64_t end = run_end(a, first, key);
    const C scale = a.by_count ? inverse_of<C>(end - first) : alpha;
    const bool scales = a.by_count || a.alpha != 1;
    C sum = a.include_self ? load(to) : start_value<C>();
    int64_t k = first;
    for (; k + kAhead <= end; k += kAhead) {
      C terms[kAhead];
      COGRAD_UNROLL
      for (int j = 0; j < kAhead; ++j) terms[j] = term_of(a, from, k + j);
      COGRAD_UNROLL
      for (int j = 0; j < kAhead; ++j) sum = next_sum(a, sum, terms[j], scale, scales);
    }
    for (; k < end; ++k) sum = next_sum(a, sum, term_of(a, from, k), scale, scales);
    if constexpr (OP == 2) sum = mean_of(sum, end - first + (a.include_self ? 1 : 0));
    store(to, sum);
  }
}

}  // namespace cograd::device
