// SPDX-License-Identifier: BSD-3-Clause
// The arguments of a linear map of one dim, for the host and for kernels' text.
#pragma once

namespace cograd::device {

inline constexpr int kResampleThreads = 256;

// Output i of [outer, out, inner] is the sum over t < count[i] of weight[i * taps + t] times input
// start[i] + t of [outer, in, inner].
struct ResampleArgs {
  const void* x;
  void* y;
  const long long *start, *count;
  const double* weight;
  long long taps, outer, in, out, inner;
};

}  // namespace cograd::device
