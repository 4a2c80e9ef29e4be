// SPDX-License-Identifier: BSD-3-Clause
// The arguments of sorting kernels, for the host and for kernels' text.
#pragma once

namespace cograd::device {

inline constexpr int kSortThreads = 256, kSortItems = 16, kSortTile = kSortThreads * kSortItems;
inline constexpr int kShortRow = 2048;  // rows up to this are sorted in shared memory

// One pass over one digit of 8 bits. Rows have n keys each, in `blocks` tiles.
struct SortArgs {
  const void* keys;
  const unsigned* order;  // null in the first pass: the positions themselves
  void* sorted_keys;
  unsigned* sorted_order;
  unsigned* counts;  // [rows, 256, blocks]; after the scan, how many are in earlier tiles
  unsigned* totals;  // [rows, 256]
  long long n, rows, blocks;
  int shift;
};

// Rows of [outer, n, inner]; outputs are [outer, k, inner] and may be null.
struct RowsArgs {
  const void* x;
  void* values;
  long long* indices;
  void* keys;             // sort_keys: receives them
  const unsigned* order;  // [rows, n], for sort_values
  long long n, inner, rows, k;
  int descending, padded;  // padded: the power of two that holds a short row
  int ignore_nan;          // median
  int rank;                // pick_rank: 0: element k - 1, 1: the lower median
};

}  // namespace cograd::device
