// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/slots/sorting.h"

#include "cuda/args/sort_args.h"

namespace cograd::cuda {

namespace {
size_t bytes(int64_t n, int64_t rows, int64_t each) {
  return static_cast<size_t>(std::max<int64_t>(1, n * rows * each));
}
}  // namespace

Sorter::Sorter(int64_t n, int64_t rows, bool wide)
    : n_(n),
      rows_(rows),
      wide_(wide),
      keys_(bytes(n, rows, wide ? 8 : 4)),
      other_keys_(bytes(n, rows, wide ? 8 : 4)),
      order_(bytes(n, rows, 4)),
      other_order_(bytes(n, rows, 4)) {}

Sorter::Result Sorter::run(int bits) const {
  const int64_t blocks = blocks_of(n_, device::kSortTile);
  const Scratch counts(bytes(256, rows_, 4 * blocks)), totals(bytes(256, rows_, 4));
  device::SortArgs a{};
  a.keys = keys_.get();
  a.sorted_keys = other_keys_.get();
  a.sorted_order = other_order_.get<unsigned>();
  a.counts = counts.get<unsigned>();
  a.totals = totals.get<unsigned>();
  a.n = n_;
  a.rows = rows_;
  a.blocks = blocks;
  const Define key{"KEY", wide_ ? "uint64_t" : "uint32_t"};
  const auto run = [&](const char* name, int64_t grid) {
    launch(name, function_of("sort.h", name, {key}), grid_of_blocks(grid, device::kSortThreads), a);
  };
  // One pass at least, so that the order is written.
  for (int shift = 0; shift == 0 || shift < bits; shift += 8) {
    a.shift = shift;
    run("sort_count", rows_ * blocks);
    run("sort_scan", rows_ * 256);
    run("sort_move", rows_ * blocks);
    void* const from = a.sorted_keys;
    a.sorted_keys = const_cast<void*>(a.keys);
    a.keys = from;
    unsigned* const last = a.sorted_order;
    a.sorted_order = a.order == nullptr ? order_.get<unsigned>() : const_cast<unsigned*>(a.order);
    a.order = last;
  }
  return {a.keys, a.order};
}

}  // namespace cograd::cuda
