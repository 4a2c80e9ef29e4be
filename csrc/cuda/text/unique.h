// SPDX-License-Identifier: BSD-3-Clause
// Runs of equal elements of dtype -DTYPE=, in sorted order or as they are. Each NaN is a run.
#include "cuda/args/search_args.h"
#include "sort_key.h"

namespace cograd::device {

using T = TYPE;
using Key = SortKey<T>;

inline int64_t place_of(const UniqueArgs& a, int64_t i) {
  return a.order == nullptr ? i : a.order[i];
}
inline Key key_of(const UniqueArgs& a, int64_t i) {
  return key_at(static_cast<const T*>(a.x) + place_of(a, i));
}
COGRAD_KERNEL(mark_heads, UniqueArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const Key key = key_of(a, i);
    a.heads[i] = i == 0 || key != key_of(a, i - 1) || (has_nan<T> && key == all_bits<T>);
  }
}
COGRAD_KERNEL(column_keys, UniqueArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size())
    static_cast<Key*>(a.keys)[i] =
        key_at(static_cast<const T*>(a.x) + place_of(a, i) * a.cols + a.col);
}
COGRAD_KERNEL(compose_orders, ComposeArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size())
    a.out[i] = a.outer == nullptr ? a.inner[i] : a.outer[a.inner[i]];
}
// Rows with NaN in the same places are equal.
COGRAD_KERNEL(mark_row_heads, UniqueArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const T* const row = static_cast<const T*>(a.x) + place_of(a, i) * a.cols;
    const T* const last = static_cast<const T*>(a.x) + (i == 0 ? 0 : place_of(a, i - 1) * a.cols);
    bool head = i == 0;
    for (int64_t j = 0; j < a.cols && !head; ++j) head = key_at(row + j) != key_at(last + j);
    a.heads[i] = head;
  }
}
// A thread has a run: its first element is the value.
COGRAD_KERNEL(store_runs, UniqueArgs, 256) {
  for (int64_t r = grid_index(); r < a.found; r += grid_size()) {
    const int64_t first = place_of(a, a.begin[r]);
    if (a.cols != 0)
      static_cast<int64_t*>(a.values)[r] = first;
    else
      static_cast<T*>(a.values)[r] = static_cast<const T*>(a.x)[first];
    if (a.counts != nullptr) a.counts[r] = (r + 1 < a.found ? a.begin[r + 1] : a.n) - a.begin[r];
  }
}
// A thread has an element: bisection finds its run.
COGRAD_KERNEL(store_inverse, UniqueArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    int64_t low = 0, high = a.found;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      if (a.begin[middle] <= i)
        low = middle;
      else
        high = middle;
    }
    a.inverse[place_of(a, i)] = low;
  }
}

}  // namespace cograd::device
