// SPDX-License-Identifier: BSD-3-Clause
// sort, topk, kthvalue and median along an axis.
#include "kernels/index/sort.h"

#include <utility>
#include <vector>

#include "cograd/error.h"
#include "kernels/index/sort_key.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

constexpr int64_t kGrain = 1 << 12;            // elements per task
constexpr int64_t kChunk = 1 << 17;            // longer rows are sorted in pieces and merged
constexpr int64_t kMaxRow = int64_t{1} << 32;  // limit of packed positions and radix counts

void check_row(int64_t n) {
  COGRAD_CHECK(n < kMaxRow, "sort: dimension has ", n, " elements, expected fewer than 4294967296");
}

// Loads the entries of one row. Descending order complements the keys, which keeps ties in order.
template <class T, class E>
void load_row(const T* x, int64_t n, int64_t step, bool descending, E* out) {
  using K = SortKey<T>;
  const K flip = descending ? static_cast<K>(~K{0}) : K{0};
  for (int64_t i = 0; i < n; ++i) {
    out[i] = make_entry(static_cast<K>(key_at(x + i * step) ^ flip), i);
  }
}

template <class T, class E>
void store_row(const T* x, const E* entries, int64_t n, int64_t step, T* values, int64_t* indices) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t from = index_of(entries[i]);
    if (values != nullptr) {
      if constexpr (std::is_same_v<T, bool>)
        values[i * step] = key_at(x + from * step) != 0;
      else
        values[i * step] = x[from * step];
    }
    if (indices != nullptr) indices[i * step] = from;
  }
}

// Sorts one long row: sorts pieces of fixed size in parallel, then merges them in pairs.
template <class E>
E* sort_long(E* entries, E* other, int64_t n) {
  const int64_t pieces = (n + kChunk - 1) / kChunk;
  parallel_for(0, pieces, 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const int64_t first = lo * kChunk, count = std::min(kChunk, n - first);
      const E* done = radix_sort(entries + first, other + first, count);
      if (done != entries + first) std::copy_n(done, count, entries + first);
    }
  });
  for (int64_t width = kChunk; width < n; width *= 2) {
    const int64_t pairs = (n + 2 * width - 1) / (2 * width);
    parallel_for(0, pairs, 1, [&](int64_t lo, int64_t hi) {
      for (; lo < hi; ++lo) {
        const int64_t a = lo * 2 * width, b = std::min(n, a + width), c = std::min(n, b + width);
        std::merge(entries + a, entries + b, entries + b, entries + c, other + a);
      }
    });
    std::swap(entries, other);
  }
  return entries;
}

// Calls f(first row, end row) on ranges of the rows of [outer, n, inner].
template <class F>
void for_rows(int64_t outer, int64_t n, int64_t inner, const F& f) {
  HeavyScope heavy(outer * n * inner);
  parallel_for(0, outer * inner, std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)),
               [&](int64_t lo, int64_t hi) { f(lo, hi); });
}

template <class T>
void sort_rows(const T* x, T* values, int64_t* indices, int64_t outer, int64_t n, int64_t inner,
               bool descending) {
  using E = SortEntry<T>;
  const int64_t rows = outer * inner;
  if (rows == 0 || n == 0) return;
  if (n > 2 * kChunk && rows < 4) {
    HeavyScope heavy(n);
    const auto a = sort_buffer<E>(n), b = sort_buffer<E>(n);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = r / inner * n * inner + r % inner;
      load_row(x + at, n, inner, descending, a.get());
      const E* done = sort_long(a.get(), b.get(), n);
      store_row(x + at, done, n, inner, values == nullptr ? nullptr : values + at,
                indices == nullptr ? nullptr : indices + at);
    }
    return;
  }
  for_rows(outer, n, inner, [&](int64_t lo, int64_t hi) {
    const auto a = sort_buffer<E>(n), b = sort_buffer<E>(n);
    for (; lo < hi; ++lo) {
      const int64_t at = lo / inner * n * inner + lo % inner;
      load_row(x + at, n, inner, descending, a.get());
      const E* done = radix_sort(a.get(), b.get(), n);
      store_row(x + at, done, n, inner, values == nullptr ? nullptr : values + at,
                indices == nullptr ? nullptr : indices + at);
    }
  });
}

// Writes the first k entries in order to `out`: uses a heap for few entries, else selection.
template <class T, class E>
void select_row(const T* x, int64_t n, int64_t step, int64_t k, bool largest, E* out) {
  using K = SortKey<T>;
  const K flip = largest ? static_cast<K>(~K{0}) : K{0};
  if (k * 8 > n) {
    load_row(x, n, step, largest, out);
    if (k < n) std::nth_element(out, out + k, out + n);
  } else {
    load_row(x, k, step, largest, out);
    std::make_heap(out, out + k);
    K worst = key_of(out[0]);
    for (int64_t i = k; i < n; ++i) {
      const auto key = static_cast<K>(key_at(x + i * step) ^ flip);
      if (key >= worst) continue;
      std::pop_heap(out, out + k);
      out[k - 1] = make_entry(key, i);
      std::push_heap(out, out + k);
      worst = key_of(out[0]);
    }
  }
  std::sort(out, out + k);
}

// Writes entry `e` of a row to position `place` in [outer, inner].
template <class T, class E>
void store_one(const T* row, int64_t inner, E e, int64_t place, T* values, int64_t* indices) {
  const int64_t from = index_of(e);
  if (values != nullptr) values[place] = row[from * inner];
  if (indices != nullptr) indices[place] = from;
}

// pick(entries, row) returns the chosen entry.
template <class T, class Pick>
void pick_rows(const T* x, T* values, int64_t* indices, int64_t outer, int64_t n, int64_t inner,
               const Pick& pick) {
  using E = SortEntry<T>;
  for_rows(outer, n, inner, [&](int64_t lo, int64_t hi) {
    const auto buffer = sort_buffer<E>(n);
    for (; lo < hi; ++lo) {
      const T* row = x + lo / inner * n * inner + lo % inner;
      load_row(row, n, inner, false, buffer.get());
      store_one(row, inner, pick(buffer.get()), lo, values, indices);
    }
  });
}

template <class E>
E nth(E* entries, int64_t n, int64_t k) {
  std::nth_element(entries, entries + k, entries + n);
  return entries[k];
}

// True for a NaN key; only floating dtypes have such keys.
template <class T, class E>
bool is_nan_entry(const E& e) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return key_of(e) == static_cast<SortKey<T>>(~SortKey<T>{0});
}

}  // namespace

void sort(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
          int64_t inner, bool descending) {
  COGRAD_SLOT(sort, t, x, values, indices, outer, n, inner, descending);
  check_row(n);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    sort_rows(static_cast<const T*>(x), static_cast<T*>(values), indices, outer, n, inner,
              descending);
  });
}

void topk(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
          int64_t inner, int64_t k, bool largest) {
  COGRAD_SLOT(topk, t, x, values, indices, outer, n, inner, k, largest);
  check_row(n);
  if (outer * inner == 0 || k == 0) return;
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_rows(outer, n, inner, [&](int64_t lo, int64_t hi) {
      const auto buffer = sort_buffer<SortEntry<T>>(n);
      for (; lo < hi; ++lo) {
        const int64_t o = lo / inner, j = lo % inner, to = o * k * inner + j;
        const T* row = static_cast<const T*>(x) + o * n * inner + j;
        select_row(row, n, inner, k, largest, buffer.get());
        store_row(row, buffer.get(), k, inner,
                  values == nullptr ? nullptr : static_cast<T*>(values) + to,
                  indices == nullptr ? nullptr : indices + to);
      }
    });
  });
}

void kthvalue(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
              int64_t inner, int64_t k) {
  COGRAD_SLOT(kthvalue, t, x, values, indices, outer, n, inner, k);
  check_row(n);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    pick_rows(static_cast<const T*>(x), static_cast<T*>(values), indices, outer, n, inner,
              [=](auto* e) { return nth(e, n, k - 1); });
  });
}

void median(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
            int64_t inner, bool ignore_nan) {
  COGRAD_SLOT(median, t, x, values, indices, outer, n, inner, ignore_nan);
  check_row(n);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    pick_rows(static_cast<const T*>(x), static_cast<T*>(values), indices, outer, n, inner,
              [=](auto* e) {
                int64_t numbers = 0, first_nan = -1;
                for (int64_t i = 0; i < n; ++i) {
                  const bool nan = is_nan_entry<T>(e[i]);
                  numbers += !nan;
                  if (nan && first_nan < 0) first_nan = i;
                }
                if (first_nan >= 0 && (!ignore_nan || numbers == 0)) return e[first_nan];
                // NaN keys are last, so the lower median of the other values is in front.
                return nth(e, n, (numbers - 1) / 2);
              });
  });
}

}  // namespace cograd::kernels
