// SPDX-License-Identifier: BSD-3-Clause
// Divides products with sparse matrices among threads, and transposes patterns.
#include "kernels/product/csr.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "kernels/core/isa.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(CsrLoops, csr_loops)

namespace {

// Returns the number of the first entry of row i; it may be wrong until starts_in_order() is known.
int64_t start_of(const CsrPattern& a, int64_t i) noexcept {
  return a.index == DType::Int32 ? static_cast<const int32_t*>(a.start)[i]
                                 : static_cast<const int64_t*>(a.start)[i];
}

bool starts_in_order(const CsrPattern& a) noexcept {
  bool good = start_of(a, 0) == 0 && start_of(a, a.rows) == a.entries;
  for (int64_t i = 0; i < a.rows; ++i) good &= start_of(a, i) <= start_of(a, i + 1);
  return good;
}

// Returns the first row that begins at `position` or later, where row i begins at its first entry
// plus i.
int64_t row_at(const CsrPattern& a, int64_t position) noexcept {
  int64_t lo = 0, hi = a.rows;
  while (lo < hi) {
    const int64_t mid = lo + (hi - lo) / 2;
    if (start_of(a, mid) + mid < position)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

// Runs a loop on ranges of rows with about the same number of rows and entries. A row belongs to
// one range, so the number of threads has no influence on its sums.
bool over_rows(decltype(CsrLoops::product) loop, DType t, const CsrPattern& a, const void* left,
               const void* x, int64_t k, void* out) {
  const HeavyScope heavy((a.rows + a.entries) * k);
  if (!starts_in_order(a)) return false;
  std::atomic<bool> good{true};
  const int64_t end = a.rows + a.entries;
  const int64_t grain = std::max<int64_t>(64, (1 << 15) / std::max<int64_t>(1, k));
  parallel_for(0, end, grain, [&](int64_t lo, int64_t hi) {
    const int64_t first = lo == 0 ? 0 : row_at(a, lo);
    const int64_t last = hi == end ? a.rows : row_at(a, hi);
    if (!loop(t, a, left, x, k, out, first, last)) good.store(false, std::memory_order_relaxed);
  });
  return good.load();
}

template <class I>
bool transpose(const CsrPattern& a, I* starts, I* rows, I* places) {
  const I* start = static_cast<const I*>(a.start);
  const I* col = static_cast<const I*>(a.col);
  const I* place = static_cast<const I*>(a.place);
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
}

}  // namespace

bool csr_product(DType t, const CsrPattern& a, const void* values, const void* x, int64_t k,
                 void* out) {
  COGRAD_SLOT_OR(true, csr_product, t, a, values, x, k, out);
  return over_rows(csr_loops().product, t, a, values, x, k, out);
}

bool csr_sampled(DType t, const CsrPattern& a, const void* y, const void* x, int64_t k, void* out) {
  COGRAD_SLOT_OR(true, csr_sampled, t, a, y, x, k, out);
  return over_rows(csr_loops().sampled, t, a, y, x, k, out);
}

bool csr_transpose(const CsrPattern& a, void* start, void* col, void* place) {
  COGRAD_SLOT_OR(true, csr_transpose, a, start, col, place);
  const HeavyScope heavy(a.rows + a.cols + 4 * a.entries);
  if (!starts_in_order(a)) return false;
  if (a.index == DType::Int32)
    return transpose(a, static_cast<int32_t*>(start), static_cast<int32_t*>(col),
                     static_cast<int32_t*>(place));
  return transpose(a, static_cast<int64_t*>(start), static_cast<int64_t*>(col),
                   static_cast<int64_t*>(place));
}

}  // namespace cograd::kernels
