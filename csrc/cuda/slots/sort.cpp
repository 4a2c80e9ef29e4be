// SPDX-License-Identifier: BSD-3-Clause
// sort, topk, kthvalue and median. Short rows are sorted in shared memory, long ones by the radix
// sort of all rows at once; the k smallest of many long rows are selected.
#include "kernels/index/sort.h"

#include "cograd/error.h"
#include "cuda/args/sort_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/sorting.h"

namespace cograd::cuda {

namespace {

using device::kShortRow;

void check_row(int64_t n) {
  COGRAD_CHECK(n < int64_t{1} << 32, "sort: dimension has ", n,
               " elements, expected fewer than 4294967296");
}

int padded(int64_t n) {
  int p = 2;
  while (p < n) p *= 2;
  return p;
}
unsigned threads_for(int64_t n) {
  return static_cast<unsigned>(std::clamp(padded(n) / 2, 32, 1024));
}
unsigned shared_for(DType t, int size) {
  return static_cast<unsigned>(size) * (dtype_size(t) == 8 ? 12 : 8);
}

CUfunction rows_kernel(DType t, const char* name) {
  return function_of("sort_rows.h", name, {{"TYPE", bits_type(t)}});
}
device::RowsArgs arguments(const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
                           int64_t inner, int64_t k) {
  device::RowsArgs a{};
  a.x = x;
  a.values = values;
  a.indices = reinterpret_cast<long long*>(indices);
  a.n = n;
  a.inner = inner;
  a.rows = outer * inner;
  a.k = k;
  return a;
}
// Unsigned dtypes sort by values that the signed types of kernels' text do not have.
void check_dtype(const char* slot, DType t) {
  if (t == DType::UInt16 || t == DType::UInt32 || t == DType::UInt64) detail::fail_no_kernel(slot);
}

int key_bits(DType t) { return t == DType::Bool ? 1 : 8 * dtype_size(t); }

void sort_short(const char* slot, DType t, device::RowsArgs a) {
  a.padded = padded(a.n);
  Grid g = grid_of_blocks(a.rows, threads_for(a.n));
  g.shared_bytes = shared_for(t, a.padded);
  launch(slot, rows_kernel(t, "sort_short"), g, a);
}
void sort_long(const char* slot, DType t, device::RowsArgs a) {
  const Sorter sorter(a.n, a.rows, dtype_size(t) == 8);
  a.keys = sorter.keys();
  launch(slot, rows_kernel(t, "sort_keys"), grid_over(a.rows * a.n), a);
  a.order = sorter.run(key_bits(t)).order;
  launch(slot, rows_kernel(t, "sort_values"), grid_over(a.rows * a.k), a);
}

void pick(const char* slot, DType t, const device::RowsArgs& a) {
  if (a.rows == 0 || a.n == 0) return;
  launch(slot, rows_kernel(t, "pick_rank"),
         grid_of_blocks(a.rows, std::max(256u, threads_for(a.n))), a);
}

}  // namespace

const unsigned* order_of(const char* slot, DType t, const void* x, const Sorter& sorter) {
  check_dtype(slot, t);
  device::RowsArgs a = arguments(x, nullptr, nullptr, 1, sorter.size(), 1, 0);
  a.keys = sorter.keys();
  launch(slot, rows_kernel(t, "sort_keys"), grid_over(a.n), a);
  return sorter.run(key_bits(t)).order;
}

void sort(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
          int64_t inner, bool descending) {
  check_row(n);
  check_dtype("sort", t);
  device::RowsArgs a = arguments(x, values, indices, outer, n, inner, n);
  a.descending = descending ? 1 : 0;
  if (a.rows == 0 || n == 0) return;
  n <= kShortRow ? sort_short("sort", t, a) : sort_long("sort", t, a);
}
COGRAD_CUDA_SLOT(sort)

void topk(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
          int64_t inner, int64_t k, bool largest) {
  check_row(n);
  check_dtype("topk", t);
  device::RowsArgs a = arguments(x, values, indices, outer, n, inner, k);
  a.descending = largest ? 1 : 0;
  if (a.rows == 0 || k == 0) return;
  if (n <= kShortRow) return sort_short("topk", t, a);
  // A block per row is slow for a few very long rows.
  constexpr int64_t kLongest = int64_t{1} << 18;
  if (k > kShortRow || (n > kLongest && a.rows < multiprocessors() / 2))
    return sort_long("topk", t, a);
  a.padded = padded(k);
  Grid g = grid_of_blocks(a.rows, 1024);
  g.shared_bytes = shared_for(t, a.padded);
  launch("topk", rows_kernel(t, "top_rows"), g, a);
}
COGRAD_CUDA_SLOT(topk)

void kthvalue(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
              int64_t inner, int64_t k) {
  check_row(n);
  check_dtype("kthvalue", t);
  pick("kthvalue", t, arguments(x, values, indices, outer, n, inner, k));
}
COGRAD_CUDA_SLOT(kthvalue)

void median(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
            int64_t inner, bool ignore_nan) {
  check_row(n);
  check_dtype("median", t);
  device::RowsArgs a = arguments(x, values, indices, outer, n, inner, 1);
  a.rank = 1;
  a.ignore_nan = ignore_nan ? 1 : 0;
  pick("median", t, a);
}
COGRAD_CUDA_SLOT(median)

}  // namespace cograd::cuda
