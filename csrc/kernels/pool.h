// SPDX-License-Identifier: BSD-3-Clause
// Maxima of windows and what is done with their places.
#pragma once
#include <cstdint>
#include <vector>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Windows of each dim: position i has elements start[i], start[i] + dilation, ... below end[i].
struct PoolWindows {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  std::vector<int64_t> start[3], end[3];
  // Where windows have one stride: the last dim's first window, before it was cut, and its length.
  bool even = false;
  int64_t first = 0, stride = 0, taps = 0;

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
};

// Of x (planes, in): the largest element of each window, NaN among them, the first of equal ones;
// index counts within the plane. Every real dtype but bool.
void max_pool(DType t, const PoolWindows& w, int64_t planes, const void* x, void* y,
              int64_t* index);
// One plane of windows for each plane of x.
void max_pool_each(DType t, const PoolWindows* w, int64_t planes, const void* x, void* y,
                   int64_t* index);

// y (planes, size) = 0, then g (planes, n) is added at (or written to) index, and the transpose.
// False, and y half done, where an index is not at least 0 and below size.
bool pool_scatter(DType t, int64_t planes, int64_t n, int64_t size, const void* g,
                  const int64_t* index, bool add, void* y);
bool pool_gather(DType t, int64_t planes, int64_t n, int64_t size, const void* x,
                 const int64_t* index, void* y);

}  // namespace cograd::kernels
