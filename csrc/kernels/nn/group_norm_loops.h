// SPDX-License-Identifier: BSD-3-Clause
// Declares the inner loops of group_norm.h, with one copy per instruction set.
#pragma once
#include "kernels/nn/group_norm.h"

namespace cograd::kernels {

struct GroupNormLoops {
  void (*forward)(DType t, const NormGroups& n, int64_t lo, int64_t hi, const void* x,
                  const void* weight, const void* bias, double eps, bool given, void* y, void* mean,
                  void* rstd, void* var);
  void (*backward)(DType t, const NormGroups& n, int64_t lo, int64_t hi, const void* g,
                   const void* x, const void* mean, const void* rstd, const void* weight,
                   bool given, void* gx, double* sums, double* dots);
};
const GroupNormLoops& group_norm_loops();

}  // namespace cograd::kernels
