// SPDX-License-Identifier: BSD-3-Clause
// The arguments of pooling, dropout, LSTM cells and ties, for the host and for kernels' text.
#pragma once

namespace cograd::device {

inline constexpr int kNnThreads = 256;

struct ScaleArgs {
  const void* x;
  const unsigned char* keep;
  void* out;
  double scale;
  long long n;
};

// A window of output i: from max(0, first + i * stride) in steps of `dilation`, below `in` and at
// most `taps` steps after its start before that was clipped. Adaptive windows have stride 0: from
// floor(i * in / out) to ceil((i + 1) * in / out).
struct PoolDim {
  long long in, out, first, stride, dilation, taps;
};
struct PoolArgs {
  const void* x;
  void* y;
  long long* index;
  PoolDim dims[3];
  long long planes;
  // Null, or for each plane the starts and the ends of the windows of each dim instead.
  const long long* table;
};

// Elements of planes, [planes, n], and their places in planes of `size` elements.
struct PlacesArgs {
  const void* from;
  const long long* index;
  void* to;
  unsigned* bad;  // becomes 1 if a place is outside
  long long planes, n, size;
  unsigned long long *head, *next;  // of pool_scatter: numbers from 1 on, 0 for none
  int add;
};

struct CellArgs {
  const void *gates, *c, *g_o, *g_cell;
  void *o, *cell;  // or the gradients of the gates and of c
  long long rows, hidden;
};

struct TiesArgs {
  const void *x, *y, *g;
  void* out;
  long long* counts;  // [outer, inner]
  long long outer, n, inner;
  int nan_ties;
};

}  // namespace cograd::device
