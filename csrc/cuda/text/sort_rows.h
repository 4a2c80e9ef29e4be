// SPDX-License-Identifier: BSD-3-Clause
// Rows of dtype -DTYPE=: their keys, short ones sorted in shared memory, and the k smallest of a
// long one. All orders are by key, then by position, so they are those of a stable sort.
#include "cuda/args/sort_args.h"
#include "sort_key.h"

namespace cograd::device {

using T = TYPE;
using Key = SortKey<T>;

// Offset of row r of [outer, n, inner].
inline int64_t row_start(int64_t r, int64_t n, int64_t inner) {
  return r / inner * n * inner + r % inner;
}
inline Key flip_of(const RowsArgs& a) { return a.descending ? all_bits<T> : Key(0); }

COGRAD_KERNEL(sort_keys, RowsArgs, 256) {
  for (int64_t i = grid_index(); i < a.rows * a.n; i += grid_size()) {
    const int64_t r = i / a.n, at = row_start(r, a.n, a.inner) + (i - r * a.n) * a.inner;
    static_cast<Key*>(a.keys)[i] = key_at(static_cast<const T*>(a.x) + at) ^ flip_of(a);
  }
}

inline void put_result(const RowsArgs& a, int64_t r, int64_t k, int64_t from) {
  const int64_t to = row_start(r, a.k, a.inner) + k * a.inner;
  if (a.values != nullptr) {
    const T* x = static_cast<const T*>(a.x) + row_start(r, a.n, a.inner) + from * a.inner;
    T* v = static_cast<T*>(a.values) + to;
    if constexpr (is_same<T, bool>)
      *v = load(x);
    else
      *v = *x;
  }
  if (a.indices != nullptr) a.indices[to] = from;
}

// Writes the first k results of each row from its order.
COGRAD_KERNEL(sort_values, RowsArgs, 256) {
  for (int64_t i = grid_index(); i < a.rows * a.k; i += grid_size()) {
    const int64_t r = i / a.k, k = i - r * a.k;
    put_result(a, r, k, a.order[r * a.n + k]);
  }
}

// A bitonic sort of `size` keys, a power of two, and their positions.
inline void sort_shared(Key* keys, unsigned* order, int size) {
  for (int span = 2; span <= size; span *= 2) {
    for (int step = span / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int t = static_cast<int>(threadIdx.x); t < size / 2; t += static_cast<int>(blockDim.x)) {
        const int i = 2 * t - (t & (step - 1)), j = i + step;
        const Key x = keys[i], y = keys[j];
        const unsigned p = order[i], q = order[j];
        const bool later = x > y || (x == y && p > q);
        if (later == ((i & span) == 0)) {
          keys[i] = y;
          keys[j] = x;
          order[i] = q;
          order[j] = p;
        }
      }
    }
  }
  __syncthreads();
}

// A block has a row of up to kShortRow elements. Padding has the largest key and a later position.
COGRAD_BLOCK_KERNEL(sort_short, RowsArgs, 1024) {
  COGRAD_DYNAMIC_SHARED(Key, keys);
  unsigned* order = reinterpret_cast<unsigned*>(keys + a.padded);
  for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
    const T* x = static_cast<const T*>(a.x) + row_start(r, a.n, a.inner);
    for (int i = static_cast<int>(threadIdx.x); i < a.padded; i += static_cast<int>(blockDim.x)) {
      keys[i] = i < a.n ? key_at(x + i * a.inner) ^ flip_of(a) : ~Key(0);
      order[i] = static_cast<unsigned>(i);
    }
    sort_shared(keys, order, a.padded);
    for (int k = static_cast<int>(threadIdx.x); k < a.k; k += static_cast<int>(blockDim.x))
      put_result(a, r, k, order[k]);
    __syncthreads();
  }
}

// Results of select_row, in shared memory.
struct Selected {
  unsigned counts[256];
  Key key;         // of the element at the rank
  int64_t ties;    // how many elements with that key come before it
  int64_t number;  // of elements that are not NaN
  int64_t first_nan;
};

// Finds the key of the element at `rank` (from 0) of a row, 8 bits at a time from the top.
inline void select_row(const T* x, int64_t n, int64_t inner, Key flip, int64_t rank, Selected& s) {
  const int t = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  Key prefix = 0, known = 0;
  for (int shift = 8 * static_cast<int>(sizeof(T)) - 8; shift >= 0; shift -= 8) {
    if (t < 256) s.counts[t] = 0;
    __syncthreads();
    for (int64_t i = t; i < n; i += threads) {
      const Key key = key_at(x + i * inner) ^ flip;
      if ((key & known) == prefix) atomicAdd(&s.counts[key >> shift & 0xFF], 1u);
    }
    __syncthreads();
    if (t == 0) {
      int digit = 0;
      while (digit < 255 && rank >= s.counts[digit]) rank -= s.counts[digit++];
      s.key = prefix | static_cast<Key>(digit) << shift;
      s.ties = rank;
    }
    __syncthreads();
    prefix = s.key;
    rank = s.ties;
    known |= Key(0xFF) << shift;
    __syncthreads();
  }
}

// Numbers the threads for which `chosen` holds, from `from` on; returns the number behind them.
inline int64_t compact(bool chosen, int64_t from, unsigned* warps, int64_t& mine) {
  const unsigned ballot = __ballot_sync(kFullWarp, chosen);
  if (lane() == 0) warps[warp()] = static_cast<unsigned>(__popc(ballot));
  __syncthreads();
  int64_t before = from, all = from;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) {
    if (w < warp()) before += warps[w];
    all += warps[w];
  }
  mine = before + __popc(ballot & ((1u << lane()) - 1));
  __syncthreads();
  return all;
}

// A block has a long row: it finds the k-th smallest key, collects what is smaller and the first
// ones that are equal, and sorts these up to kShortRow elements. Bound by memory: it reads the row
// once for each byte of the dtype, and once more.
COGRAD_BLOCK_KERNEL(top_rows, RowsArgs, 1024) {
  COGRAD_SHARED Selected s;
  COGRAD_SHARED unsigned warps[32];
  COGRAD_DYNAMIC_SHARED(Key, keys);
  unsigned* order = reinterpret_cast<unsigned*>(keys + a.padded);
  const int t = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
    const T* x = static_cast<const T*>(a.x) + row_start(r, a.n, a.inner);
    select_row(x, a.n, a.inner, flip_of(a), a.k - 1, s);
    const int64_t ties = s.ties + 1, smaller = a.k - ties;
    int64_t found = 0, equal = 0;
    for (int64_t first = 0; first < a.n; first += threads) {
      const int64_t i = first + t;
      const Key key = i < a.n ? key_at(x + i * a.inner) ^ flip_of(a) : ~Key(0);
      const bool less = i < a.n && key < s.key, same = i < a.n && key == s.key;
      int64_t at = 0;
      found = compact(less, found, warps, at);
      if (less) {
        keys[at] = key;
        order[at] = static_cast<unsigned>(i);
      }
      equal = compact(same, equal, warps, at);
      if (same && at < ties) {
        keys[smaller + at] = key;
        order[smaller + at] = static_cast<unsigned>(i);
      }
    }
    for (int k = static_cast<int>(a.k) + t; k < a.padded; k += threads) {
      keys[k] = ~Key(0);
      order[k] = 0xFFFFFFFFu;
    }
    sort_shared(keys, order, a.padded);
    for (int k = t; k < a.k; k += threads) put_result(a, r, k, order[k]);
    __syncthreads();
  }
}

// A block writes the element of a row at a rank: number k, or the lower median.
COGRAD_BLOCK_KERNEL(pick_rank, RowsArgs, 1024) {
  COGRAD_SHARED Selected s;
  COGRAD_SHARED unsigned warps[32];
  COGRAD_SHARED unsigned long long numbers, first_nan;
  const int t = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
    const T* x = static_cast<const T*>(a.x) + row_start(r, a.n, a.inner);
    int64_t rank = a.k - 1;
    bool nan = false;
    if (a.rank == 1) {
      if (t == 0) {
        numbers = 0;
        first_nan = static_cast<unsigned long long>(a.n);
      }
      __syncthreads();
      unsigned long long mine = 0;
      for (int64_t i = t; i < a.n; i += threads) {
        if (has_nan<T> && key_at(x + i * a.inner) == all_bits<T>)
          atomicMin(&first_nan, static_cast<unsigned long long>(i));
        else
          ++mine;
      }
      atomicAdd(&numbers, mine);
      __syncthreads();
      const int64_t known = static_cast<int64_t>(numbers);
      nan = known < a.n && (!a.ignore_nan || known == 0);
      rank = (known - 1) / 2;
    }
    RowsArgs one = a;
    one.k = 1;
    if (nan) {
      if (t == 0) put_result(one, r, 0, static_cast<int64_t>(first_nan));
    } else {
      select_row(x, a.n, a.inner, 0, rank, s);
      int64_t equal = 0;
      for (int64_t first = 0; first < a.n && equal <= s.ties; first += threads) {
        const int64_t i = first + t;
        const bool same = i < a.n && key_at(x + i * a.inner) == s.key;
        int64_t at = 0;
        equal = compact(same, equal, warps, at);
        if (same && at == s.ties) put_result(one, r, 0, i);
      }
    }
    __syncthreads();
  }
}

}  // namespace cograd::device
