// SPDX-License-Identifier: BSD-3-Clause
// The arguments of CTC's kernels, for the host and for kernels' text.
#pragma once

namespace cograd::device {

inline constexpr int kCtcThreads = 128;

struct CtcArgs {
  const void* log_probs;  // [steps, batch, classes]
  const long long *targets, *offsets, *input_lengths, *target_lengths;
  void* losses;
  const void* g;
  void* out;
  // Memory for each sample: `width` states for each step, and for the step that is computed.
  double *alpha, *next, *share;
  int* following;
  long long steps, batch, classes, blank, width;
};
// Row b of `width` labels has lengths[b] of them; with width 0, all belong to targets.
struct CtcLabelArgs {
  const long long *labels, *lengths;
  unsigned long long* found;  // the first bad position
  long long n, width, classes;
};

}  // namespace cograd::device
