// SPDX-License-Identifier: BSD-3-Clause
// unique, unique_consecutive and unique rows.
#include <numeric>
#include <utility>
#include <vector>

#include "cograd/error.h"
#include "kernels/index/sort.h"
#include "kernels/index/sort_key.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

template <class T>
bool is_nan_key(SortKey<T> k) {
  return !std::is_integral_v<T> && k == static_cast<SortKey<T>>(~SortKey<T>{0});
}

// True if two keys are equal for unique: the same key, and not NaN.
template <class T>
bool same(SortKey<T> a, SortKey<T> b) {
  return a == b && !is_nan_key<T>(a);
}

template <class T>
int64_t unique_sorted(const T* x, int64_t n, T* values, int64_t* inverse, int64_t* counts) {
  using E = SortEntry<T>;
  const auto a = sort_buffer<E>(n), b = sort_buffer<E>(n);
  for (int64_t i = 0; i < n; ++i) a[static_cast<size_t>(i)] = make_entry(key_at(x + i), i);
  const E* sorted = radix_sort(a.get(), b.get(), n);
  int64_t found = 0, start = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i == 0 || !same<T>(key_of(sorted[i]), key_of(sorted[i - 1]))) {
      if (counts != nullptr && found > 0) counts[found - 1] = i - start;
      start = i;
      values[found++] = x[index_of(sorted[i])];
    }
    if (inverse != nullptr) inverse[index_of(sorted[i])] = found - 1;
  }
  if (counts != nullptr && found > 0) counts[found - 1] = n - start;
  return found;
}

template <class T>
int64_t unique_runs(const T* x, int64_t n, T* values, int64_t* inverse, int64_t* counts) {
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i == 0 || !same<T>(key_at(x + i), key_at(x + i - 1))) {
      values[found] = x[i];
      if (counts != nullptr) counts[found] = 0;
      ++found;
    }
    if (inverse != nullptr) inverse[i] = found - 1;
    if (counts != nullptr) ++counts[found - 1];
  }
  return found;
}

template <class T>
int compare_rows(const T* a, const T* b, int64_t cols) {
  for (int64_t j = 0; j < cols; ++j) {
    const auto ka = key_at(a + j), kb = key_at(b + j);
    if (ka != kb) return ka < kb ? -1 : 1;
  }
  return 0;
}

}  // namespace

int64_t unique(DType t, const void* x, int64_t n, void* values, int64_t* inverse, int64_t* counts) {
  COGRAD_SLOT_READS(unique, t, x, n, values, inverse, counts);
  COGRAD_CHECK(n < (int64_t{1} << 32), "unique: input has ", n,
               " elements, expected fewer than 4294967296");
  HeavyScope heavy(n);
  return dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return unique_sorted(static_cast<const T*>(x), n, static_cast<T*>(values), inverse, counts);
  });
}

int64_t unique_consecutive(DType t, const void* x, int64_t n, void* values, int64_t* inverse,
                           int64_t* counts) {
  COGRAD_SLOT_READS(unique_consecutive, t, x, n, values, inverse, counts);
  HeavyScope heavy(n);
  return dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return unique_runs(static_cast<const T*>(x), n, static_cast<T*>(values), inverse, counts);
  });
}

int64_t unique_rows(DType t, const void* x, int64_t rows, int64_t cols, bool consecutive,
                    int64_t* first_row, int64_t* inverse, int64_t* counts) {
  COGRAD_SLOT_READS(unique_rows, t, x, rows, cols, consecutive, first_row, inverse, counts);
  HeavyScope heavy(rows * cols);
  return dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* p = static_cast<const T*>(x);
    std::vector<int64_t> order(static_cast<size_t>(rows));
    std::iota(order.begin(), order.end(), int64_t{0});
    if (!consecutive) {
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return compare_rows(p + a * cols, p + b * cols, cols) < 0;
      });
    }
    int64_t found = 0, last = -1;
    for (int64_t row : order) {
      if (last < 0 || compare_rows(p + row * cols, p + last * cols, cols) != 0) {
        first_row[found] = row;
        if (counts != nullptr) counts[found] = 0;
        ++found;
      }
      last = row;
      if (inverse != nullptr) inverse[row] = found - 1;
      if (counts != nullptr) ++counts[found - 1];
    }
    return found;
  });
}

}  // namespace cograd::kernels
