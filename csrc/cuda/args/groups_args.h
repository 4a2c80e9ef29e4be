// SPDX-License-Identifier: BSD-3-Clause
// The arguments of normalisation by groups, for the host and for kernels' text.
#pragma once

namespace cograd::device {

inline constexpr int kGroupThreads = 256;

// The geometry is kernels::NormGroups. `columns`: element s of group g is at s * step + g.
struct GroupArgs {
  long long groups, segments, length, wrap, outer, inner, step, per_group, per_segment;
  int columns, given, lanes;  // lanes: threads per segment, 32 or all of a block
  const void *x, *g, *weight, *bias;
  void *y, *mean, *rstd, *var;  // y is the gradient of x in the backward; it and var may be null
  double *sums, *dots;          // of the segments [groups, segments]
  double* totals;               // of the groups: sum and dot by weights [groups, 2]
  void* partial;                // states [groups, chunks]
  long long chunk, chunks;
  double eps;
};

struct WeightArgs {
  const double* terms;
  double* totals;
  long long groups, segments, wrap, per_group, per_segment, weights;
};

}  // namespace cograd::device
