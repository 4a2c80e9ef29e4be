// SPDX-License-Identifier: BSD-3-Clause
// The arguments of masks.h, for the host and for kernels' text.
#pragma once

namespace cograd::device {

inline constexpr int kMaskThreads = 256, kMaskTile = 2048, kMaskDims = 8;

struct MaskedFillArgs {
  void* self;
  const void* mask;
  const void* value;
  long long n;
  int ndim;
  long long size[kMaskDims], self_stride[kMaskDims], mask_stride[kMaskDims];  // bytes
};

// Counts of what is kept in each tile of x, and their sums.
struct CompactArgs {
  const void* x;  // the mask, or elements of which the non-zero ones are kept
  const void* from;
  void* to;
  unsigned long long* starts;  // [tiles + 1]
  long long n, tiles, most;    // most: how many the output holds
  int ndim;
  long long size[kMaskDims];
};

}  // namespace cograd::device
