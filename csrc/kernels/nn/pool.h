// SPDX-License-Identifier: BSD-3-Clause
// Computes maxima of windows, and gathers or scatters at their positions.
#pragma once
#include <cstdint>
#include <vector>

#include "cograd/dtype.h"

namespace cograd::kernels {

// The windows of each dim: window i has the elements start[i], start[i] + dilation, ... below
// end[i].
struct PoolWindows {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  std::vector<int64_t> start[3], end[3];
  // Set if all windows have one stride: the start of the last dim's first window, before it was
  // clipped, the stride, and the window's length.
  bool even = false;
  int64_t first = 0, stride = 0, taps = 0;

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
};

// Computes for x (planes, in) the largest element of each window: NaN wins, and the first of equal
// elements. index counts within the plane. Supports every real dtype but bool.
void max_pool(DType t, const PoolWindows& w, int64_t planes, const void* x, void* y,
              int64_t* index);
// Does the same with separate windows for each plane of x.
void max_pool_each(DType t, const PoolWindows* w, int64_t planes, const void* x, void* y,
                   int64_t* index);

// pool_scatter zeroes y (planes, size), then adds g (planes, n) at (or writes it to) index;
// pool_gather is the transpose. Both return false, with y partly written, if an index is not in
// [0, size).
bool pool_scatter(DType t, int64_t planes, int64_t n, int64_t size, const void* g,
                  const int64_t* index, bool add, void* y);
bool pool_gather(DType t, int64_t planes, int64_t n, int64_t size, const void* x,
                 const int64_t* index, void* y);

}  // namespace cograd::kernels
