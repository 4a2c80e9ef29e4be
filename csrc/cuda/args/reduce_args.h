// SPDX-License-Identifier: BSD-3-Clause
// The arguments of reductions, for the host and for kernels' text.
#pragma once

namespace cograd::device {

inline constexpr int kReduceDims = 6, kReduceThreads = 256;

// The last step of a reduction turns the combined terms into the result.
enum ReduceFinish : int { kPlain, kMean, kRoot2, kRootP, kAllTrue, kAnyTrue };

// multiplier and shift divide numbers below 2^31 by the size.
struct ReduceDim {
  long long size, stride;  // bytes
  long long out;           // stride in the output, in elements
  unsigned multiplier, shift;
};

struct ReduceArgs {
  const void* x;
  void *y, *second;  // the second result: indices, or means
  void* partial;     // states [outputs, chunks], if there are several chunks
  long long outputs, terms, chunk, chunks;
  ReduceDim kept[kReduceDims], reduced[kReduceDims];  // from the outermost to the innermost
  int nkept, nreduced;
  int group;         // threads per output: a power of two up to 32, or kReduceThreads
  int out;           // dtype of y
  int finish, wide;  // wide: numbers of outputs or terms do not fit into 31 bits
  int flat;          // the terms of an output are adjacent
  int packs;         // columns: a thread loads several columns at once
  double p;          // an exponent, or the lower of two bounds
  double q;          // a correction, or the upper bound
};

}  // namespace cograd::device
