// SPDX-License-Identifier: BSD-3-Clause
// The arguments of fft.h, for the host and for kernels' text.
#pragma once

namespace cograd::device {

inline constexpr int kFftDims = 12;

// Fills the bins from `half` on of lines of n bins, `step` elements apart. The other dims, the
// innermost first, number the lines; mirrored ones run backwards through the source.
struct MirrorArgs {
  void* out;
  long long total, n, half, step;
  int ndim;
  struct {
    long long size, stride;
    int mirrored;
  } dims[kFftDims];
};
// Writes 0 to the imaginary parts of bin 0 and, if `last` is not 0, of bin `last` of dense lines.
struct EdgeArgs {
  void* x;
  long long lines, bins, last;
};

}  // namespace cograd::device
