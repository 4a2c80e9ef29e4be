// SPDX-License-Identifier: BSD-3-Clause
// unique and unique_consecutive: mark where runs of equal elements begin, and number the runs.
#include "cograd/error.h"
#include "cuda/args/search_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/sorting.h"
#include "kernels/index/index.h"
#include "kernels/index/sort.h"

namespace cograd::cuda {

int64_t nonzero_count(DType t, const void* x, int64_t n);
void nonzero(DType t, const void* x, std::span<const int64_t> sizes, int64_t found, int64_t* out);

namespace {

CUfunction unique_kernel(DType t, const char* name) {
  return function_of("unique.h", name, {{"TYPE", bits_type(t)}});
}

// Without `cols`, x has elements; else rows of that many.
int64_t runs(const char* slot, DType t, const void* x, const unsigned* order, int64_t n,
             void* values, int64_t* inverse, int64_t* counts, int64_t cols = 0) {
  const Scratch heads(static_cast<size_t>(n));
  device::UniqueArgs a{};
  a.x = x;
  a.order = order;
  a.heads = heads.get<unsigned char>();
  a.values = values;
  a.inverse = reinterpret_cast<long long*>(inverse);
  a.counts = reinterpret_cast<long long*>(counts);
  a.n = n;
  a.cols = cols;
  const auto run = [&](const char* name, int64_t items) {
    launch(slot, unique_kernel(t, name), grid_over(items), a);
  };
  run(cols == 0 ? "mark_heads" : "mark_row_heads", n);
  a.found = cuda::nonzero_count(DType::Bool, heads.get(), n);
  const Scratch begin(static_cast<size_t>(a.found) * sizeof(int64_t));
  cuda::nonzero(DType::Bool, heads.get(), {&n, 1}, a.found, begin.get<int64_t>());
  a.begin = begin.get<long long>();
  run("store_runs", a.found);
  if (inverse != nullptr) run("store_inverse", n);
  return a.found;
}
bool has_kernel(DType t) {
  return t != DType::UInt16 && t != DType::UInt32 && t != DType::UInt64 && !is_complex(t);
}

}  // namespace

int64_t unique(DType t, const void* x, int64_t n, void* values, int64_t* inverse, int64_t* counts) {
  COGRAD_CHECK(n < (int64_t{1} << 32), "unique: input has ", n,
               " elements, expected fewer than 4294967296");
  if (!has_kernel(t)) detail::fail_no_kernel("unique");
  if (n == 0) return 0;
  const Sorter sorter(n, 1, dtype_size(t) == 8);
  return runs("unique", t, x, order_of("unique", t, x, sorter), n, values, inverse, counts);
}
COGRAD_CUDA_SLOT(unique)

int64_t unique_consecutive(DType t, const void* x, int64_t n, void* values, int64_t* inverse,
                           int64_t* counts) {
  if (!has_kernel(t)) detail::fail_no_kernel("unique_consecutive");
  if (n == 0) return 0;
  return runs("unique_consecutive", t, x, nullptr, n, values, inverse, counts);
}
COGRAD_CUDA_SLOT(unique_consecutive)

// Sorts by one column after the other, from the last; each sort keeps the order of the one before.
int64_t unique_rows(DType t, const void* x, int64_t rows, int64_t cols, bool consecutive,
                    int64_t* first_row, int64_t* inverse, int64_t* counts) {
  constexpr int64_t kMostSorts = 256;  // the CPU compares long rows faster
  if (!has_kernel(t) || (!consecutive && cols > kMostSorts)) detail::fail_no_kernel("unique_rows");
  COGRAD_CHECK(rows < (int64_t{1} << 32), "unique: there are ", rows,
               " rows, expected fewer than 4294967296");
  if (consecutive)
    return runs("unique_consecutive", t, x, nullptr, rows, first_row, inverse, counts, cols);
  const size_t bytes = static_cast<size_t>(rows) * sizeof(unsigned);
  const Scratch orders[2]{Scratch(bytes), Scratch(bytes)};
  const Sorter sorter(rows, 1, dtype_size(t) == 8);
  device::UniqueArgs a{};
  a.x = x;
  a.keys = sorter.keys();
  a.n = rows;
  a.cols = cols;
  for (a.col = cols - 1; a.col >= 0; --a.col) {
    launch("unique", unique_kernel(t, "column_keys"), grid_over(rows), a);
    const int bits = t == DType::Bool ? 1 : 8 * dtype_size(t);
    unsigned* const out = orders[a.col % 2].get<unsigned>();
    const device::ComposeArgs both{a.order, sorter.run(bits).order, out, rows};
    launch("unique", unique_kernel(t, "compose_orders"), grid_over(rows), both);
    a.order = out;
  }
  return runs("unique", t, x, a.order, rows, first_row, inverse, counts, cols);
}
COGRAD_CUDA_SLOT(unique_rows)

}  // namespace cograd::cuda
