// SPDX-License-Identifier: BSD-3-Clause
// Searches in sorted rows and what reads them. -DTYPE= is the dtype. Bound by latency: a thread
// has a value.
#include "cuda/args/search_args.h"
#include "exact.h"

namespace cograd::device {

using T = TYPE;
using P = compute_t<T>;

// Returns the first position whose entry is >= v (> v if right). By negations, as on the CPU: NaN
// is larger than everything.
template <class At>
inline int64_t bound(int64_t n, P v, bool right, At&& at) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const P m = at(middle);
    if (right ? !(m > v) : !(m >= v))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

COGRAD_KERNEL(searchsorted, SearchArgs, 256) {
  for (int64_t i = grid_index(); i < a.batch * a.m; i += grid_size()) {
    const int64_t row = a.shared ? 0 : i / a.m * a.n;
    const T* sorted = static_cast<const T*>(a.sorted) + row;
    const long long* order = a.sorter == nullptr ? nullptr : a.sorter + row;
    const int64_t at =
        bound(a.n, load(static_cast<const T*>(a.values), i), a.right, [=](int64_t k) {
          if (order == nullptr) return load(sorted, k);
          const int64_t from = order[k];
          return from >= 0 && from < a.n ? load(sorted, from) : P();
        });
    if (a.narrow)
      static_cast<int32_t*>(a.out)[i] = static_cast<int32_t>(at);
    else
      static_cast<int64_t*>(a.out)[i] = at;
  }
}

COGRAD_KERNEL(is_member, MemberArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const int64_t at = a.at[i];
    const bool found = at < a.m && load(static_cast<const T*>(a.sorted), at) ==
                                       load(static_cast<const T*>(a.x), i);
    a.out[i] = found != (a.invert != 0);
  }
}

// The bin of each element; `bins` for one without.
COGRAD_KERNEL(uniform_bins, BinArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const double v = static_cast<double>(load(static_cast<const T*>(a.x), i));
    int64_t b = a.bins;
    if (v >= a.lo && v <= a.hi) {
      const double at = mul_exact((v - a.lo) / (a.hi - a.lo), static_cast<double>(a.bins));
      b = static_cast<int64_t>(at);
      if (b > a.bins - 1) b = a.bins - 1;
    }
    a.keys[i] = static_cast<unsigned>(b);
  }
}
COGRAD_KERNEL(edge_bins, BinArgs, 256) {
  const T* edges = static_cast<const T*>(a.edges);
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const P v = load(static_cast<const T*>(a.x), i);
    int64_t b = a.bins;
    if (v >= load(edges, 0) && v <= load(edges, a.bins)) {
      b = bound(a.bins + 1, v, true, [=](int64_t k) { return load(edges, k); }) - 1;
      if (b > a.bins - 1) b = a.bins - 1;
    }
    a.keys[i] = static_cast<unsigned>(b);
  }
}
template <class V>
inline int64_t bin_of(V v) {
  if constexpr (is_float<V> || is_complex_type<V>)
    return -1;
  else
    return static_cast<int64_t>(v);
}
COGRAD_KERNEL(integer_bins, BinArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const int64_t v = bin_of(load(static_cast<const T*>(a.x), i));
    a.keys[i] = static_cast<unsigned>(v >= 0 && v < a.bins ? v : a.bins);
  }
}
// counts[0] gets the largest value, biased to be unsigned, counts[1] the first negative position.
COGRAD_KERNEL(integer_range, BinArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const int64_t v = bin_of(load(static_cast<const T*>(a.x), i));
    atomicMax(&a.counts[0], static_cast<unsigned long long>(v) ^ 1ull << 63);
    if (v < 0) atomicMin(&a.counts[1], static_cast<unsigned long long>(i));
  }
}
COGRAD_KERNEL(store_counts, BinArgs, 256) {
  for (int64_t b = grid_index(); b < a.bins; b += grid_size())
    static_cast<T*>(a.out)[b] = rounded_to<T>(static_cast<double>(a.counts[b]));
}

COGRAD_KERNEL(modes, ModeArgs, 256) {
  for (int64_t r = grid_index(); r < a.rows; r += grid_size()) {
    const T* sorted = static_cast<const T*>(a.sorted);
    const int64_t base = r / a.inner * a.n * a.inner + r % a.inner;
    int64_t run = 0, longest = 0, at = base;
    for (int64_t k = 0; k < a.n; ++k) {
      const int64_t here = base + k * a.inner;
      const bool same = k > 0 && load(sorted, here) == load(sorted, here - a.inner);
      run = same ? run + 1 : 1;
      if (run > longest) {
        longest = run;
        at = here;
      }
    }
    static_cast<T*>(a.values)[r] = sorted[at];
    a.indices[r] = a.order[at];
  }
}

}  // namespace cograd::device
