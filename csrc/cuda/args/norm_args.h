// SPDX-License-Identifier: BSD-3-Clause
// The arguments of layer normalisation, for the host and for kernels' text.
#pragma once

namespace cograd::device {

struct LayerNormArgs {
  const void *x, *weight, *bias, *g;  // weight, bias: may be null
  void *y, *mean, *rstd;              // y is the gradient of x in the backward
  long long rows, n;
  double eps;
};

// Sums over rows of g * (x - mean) * rstd and of g, in pieces of `chunk` rows.
struct LayerNormSums {
  const void *g, *x, *mean, *rstd;
  void *gweight, *gbias;  // may be null
  double* partial;        // [2, chunks, n]
  long long rows, n, chunk, chunks;
};

}  // namespace cograd::device
