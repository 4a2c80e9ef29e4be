// SPDX-License-Identifier: BSD-3-Clause
// Normalises groups that consist of segments. In batch_norm a group is one channel of all samples;
// in group_norm it is some channels of one sample.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Segment s of group g has `length` elements from (g / wrap * outer + g % wrap * inner) + s * step
// on; the index of its weight is g % wrap * per_group + s * per_segment.
struct NormGroups {
  int64_t groups = 0, segments = 1, length = 1;
  int64_t wrap = 1, outer = 0, inner = 0, step = 0;
  int64_t per_group = 1, per_segment = 0;

  int64_t first(int64_t g) const { return g / wrap * outer + g % wrap * inner; }
  int64_t weight(int64_t g, int64_t s) const { return g % wrap * per_group + s * per_segment; }
};

// Computes y = (x - mean) * rstd * weight + bias for a floating dtype. Reads mean and rstd if
// `given`, else writes them. They and var are float, or double for float64. weight, bias and var
// may be null.
void group_norm_forward(DType t, const NormGroups& n, const void* x, const void* weight,
                        const void* bias, double eps, bool given, void* y, void* mean, void* rstd,
                        void* var);
// gx may be null. Writes for each segment of each group: sum(g), and sum(g (x - mean)) rstd.
void group_norm_backward(DType t, const NormGroups& n, const void* g, const void* x,
                         const void* mean, const void* rstd, const void* weight, bool given,
                         void* gx, double* sums, double* dots);
// Adds the term of each segment of each group to the total of its weight.
void add_by_weight(const NormGroups& n, const double* terms, double* totals);

}  // namespace cograd::kernels
