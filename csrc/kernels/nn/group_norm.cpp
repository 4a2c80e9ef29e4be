// SPDX-License-Identifier: BSD-3-Clause
// Divides normalisation among threads by groups.
#include "kernels/nn/group_norm.h"

#include <algorithm>

#include "kernels/core/isa.h"
#include "kernels/nn/group_norm_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(GroupNormLoops, group_norm_loops)

namespace {
constexpr int64_t kGrain = 1 << 14;  // elements per task
constexpr int64_t kColumns = 64;     // minimum number of single-element groups per task

int64_t grain_of(const NormGroups& n) {
  const int64_t work = std::max<int64_t>(1, n.segments * n.length);
  const int64_t grain = std::max<int64_t>(1, kGrain / work);
  return n.length == 1 ? std::max(grain, kColumns) : grain;
}
}  // namespace

void group_norm_forward(DType t, const NormGroups& n, const void* x, const void* weight,
                        const void* bias, double eps, bool given, void* y, void* mean, void* rstd,
                        void* var) {
  COGRAD_SLOT(group_norm_forward, t, n, x, weight, bias, eps, given, y, mean, rstd, var);
  HeavyScope heavy(n.groups * n.segments * n.length);
  const GroupNormLoops loops = group_norm_loops();
  parallel_for(0, n.groups, grain_of(n), [&](int64_t lo, int64_t hi) {
    loops.forward(t, n, lo, hi, x, weight, bias, eps, given, y, mean, rstd, var);
  });
}

void group_norm_backward(DType t, const NormGroups& n, const void* g, const void* x,
                         const void* mean, const void* rstd, const void* weight, bool given,
                         void* gx, double* sums, double* dots) {
  COGRAD_SLOT(group_norm_backward, t, n, g, x, mean, rstd, weight, given, gx, sums, dots);
  HeavyScope heavy(n.groups * n.segments * n.length);
  const GroupNormLoops loops = group_norm_loops();
  parallel_for(0, n.groups, grain_of(n), [&](int64_t lo, int64_t hi) {
    loops.backward(t, n, lo, hi, g, x, mean, rstd, weight, given, gx, sums, dots);
  });
}

void add_by_weight(const NormGroups& n, const double* terms, double* totals) {
  COGRAD_SLOT(add_by_weight, n, terms, totals);
  for (int64_t g = 0; g < n.groups; ++g)
    for (int64_t s = 0; s < n.segments; ++s) totals[n.weight(g, s)] += terms[g * n.segments + s];
}

}  // namespace cograd::kernels
