// SPDX-License-Identifier: BSD-3-Clause
// Interpolation and average pooling, one dim after the other, from -DCOGRAD_FROM to -DCOGRAD_TO;
// sums are computed in -DCOGRAD_SUM. Neighbours read neighbours: the bound is the memory.
#pragma once
#include "cuda/args/resample_args.h"
#include "cuda/text/functions.h"

namespace cograd::device {

using From = COGRAD_FROM;
using To = COGRAD_TO;
using Sum = COGRAD_SUM;

COGRAD_KERNEL(resample, ResampleArgs, kResampleThreads) {
  for (int64_t k = grid_index(); k < a.outer * a.out * a.inner; k += grid_size()) {
    const int64_t line = k / a.inner, o = line / a.out, i = line - o * a.out;
    const From* x =
        static_cast<const From*>(a.x) + (o * a.in + a.start[i]) * a.inner + (k - line * a.inner);
    const double* w = a.weight + i * a.taps;
    const int64_t count = a.count[i];
    Sum sum = 0;
    for (int64_t t = 0; t < count; ++t)
      sum += static_cast<Sum>(w[t]) * static_cast<Sum>(load(x, t * a.inner));
    static_cast<To*>(a.y)[k] = To(sum);
  }
}

}  // namespace cograd::device
