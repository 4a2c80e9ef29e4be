// SPDX-License-Identifier: BSD-3-Clause
// The arguments of search.h and unique.h, for the host and for kernels' text.
#pragma once

namespace cograd::device {

struct SearchArgs {
  const void* sorted;
  const long long* sorter;
  const void* values;
  void* out;
  long long n, batch, m;
  int shared, right, narrow;  // narrow: out has int32
};
struct MemberArgs {
  const void *sorted, *x;
  const long long* at;
  bool* out;
  long long m, n;
  int invert;
};
// Bins of a histogram; the entries are sorted by bin if they have weights.
struct BinArgs {
  const void *x, *weights, *edges;
  unsigned* keys;
  const unsigned* order;
  unsigned long long* counts;
  void* out;
  long long n, bins;
  double lo, hi;
};
struct QuantileArgs {
  const void* x;
  const long long* order;
  const double* fractions;
  long long *low, *high;
  void *weight, *steps;
  long long rows, n, inner, count;
  int mode, ignore_nan;
};
struct ModeArgs {
  const void* sorted;
  const long long* order;
  void* values;
  long long* indices;
  long long rows, n, inner;
};
// Runs of equal elements, or rows of `cols` elements: x in the order of `order`, or as it is.
struct UniqueArgs {
  const void* x;
  const unsigned* order;
  void* keys;              // of column `col`, in that order
  unsigned char* heads;    // where a run begins
  const long long* begin;  // of each run
  void* values;            // of rows: where each begins
  long long *inverse, *counts;
  long long n, found, cols, col;
};
// The order of an order.
struct ComposeArgs {
  const unsigned *outer, *inner;  // outer may be null: the positions themselves
  unsigned* out;
  long long n;
};

}  // namespace cograd::device
