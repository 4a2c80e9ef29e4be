// SPDX-License-Identifier: BSD-3-Clause
// Divides products with sparse matrices among threads, and transposes patterns.
#include "kernels/product/csr.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "kernels/core/isa.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(CsrLoops, csr_loops)

namespace {

template <class F>
auto by_index(const CsrPattern& a, F&& f) {
  return a.index == DType::Int32 ? f(int32_t{}) : f(int64_t{});
}

// Calls f(lo, hi) for consecutive ranges of rows with about the same number of rows and entries. A
// row belongs to one range, so the number of threads has no influence on its sums.
template <class I, class F>
bool over_rows(const CsrPattern& a, int64_t k, F&& f) {
  const I* start = static_cast<const I*>(a.start);
  std::atomic<bool> good{true};
  const int64_t grain = std::max<int64_t>(64, (1 << 15) / std::max<int64_t>(1, k));
  // Row i begins at position start[i] + i; out-of-range starts give ranges that overlap or miss
  // rows, in a call that fails.
  const auto row_at = [&](int64_t position) {
    int64_t lo = 0, hi = a.rows;
    while (lo < hi) {
      const int64_t mid = lo + (hi - lo) / 2;
      if (static_cast<int64_t>(start[mid]) + mid < position)
        lo = mid + 1;
      else
        hi = mid;
    }
    return lo;
  };
  const int64_t end = a.rows + a.entries;
  parallel_for(0, end, grain, [&](int64_t lo, int64_t hi) {
    const int64_t first = lo == 0 ? 0 : row_at(lo);
    if (!f(first, hi == end ? a.rows : row_at(hi))) good.store(false, std::memory_order_relaxed);
  });
  return good.load();
}

template <class I>
bool starts_in_order(const CsrPattern& a) {
  const I* start = static_cast<const I*>(a.start);
  bool good = start[0] == 0 && static_cast<int64_t>(start[a.rows]) == a.entries;
  for (int64_t i = 0; i < a.rows; ++i) good &= start[i] <= start[i + 1];
  return good;
}

}  // namespace

bool csr_product(DType t, const CsrPattern& a, const void* values, const void* x, int64_t k,
                 void* out) {
  const HeavyScope heavy((a.rows + a.entries) * k);
  return by_index(a, [&]<class I>(I) {
    return starts_in_order<I>(a) && over_rows<I>(a, k, [&](int64_t lo, int64_t hi) {
             return csr_loops().product(t, a, values, x, k, out, lo, hi);
           });
  });
}

bool csr_sampled(DType t, const CsrPattern& a, const void* y, const void* x, int64_t k, void* out) {
  const HeavyScope heavy((a.rows + a.entries) * k);
  return by_index(a, [&]<class I>(I) {
    return starts_in_order<I>(a) && over_rows<I>(a, k, [&](int64_t lo, int64_t hi) {
             return csr_loops().sampled(t, a, y, x, k, out, lo, hi);
           });
  });
}

bool csr_transpose(const CsrPattern& a, void* start_out, void* col_out, void* place_out) {
  const HeavyScope heavy(a.rows + a.cols + 4 * a.entries);
  return by_index(a, [&]<class I>(I) {
    if (!starts_in_order<I>(a)) return false;
    const I* start = static_cast<const I*>(a.start);
    const I* col = static_cast<const I*>(a.col);
    const I* place = static_cast<const I*>(a.place);
    I *starts = static_cast<I*>(start_out), *rows = static_cast<I*>(col_out),
      *places = static_cast<I*>(place_out);
    std::fill_n(starts, a.cols + 1, I{0});
    for (int64_t e = 0; e < a.entries; ++e) {
      if (static_cast<uint64_t>(col[e]) >= static_cast<uint64_t>(a.cols)) return false;
      ++starts[col[e] + 1];
    }
    for (int64_t c = 0; c < a.cols; ++c) starts[c + 1] += starts[c];
    std::vector<I> next(starts, starts + a.cols);
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t e = start[i]; e < start[i + 1]; ++e) {
        const I at = next[static_cast<size_t>(col[e])]++;
        rows[at] = static_cast<I>(i);
        places[at] = place != nullptr ? place[e] : static_cast<I>(e);
      }
    return true;
  });
}

}  // namespace cograd::kernels
