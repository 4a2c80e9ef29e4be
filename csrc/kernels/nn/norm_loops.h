// SPDX-License-Identifier: BSD-3-Clause
// Declares the row loops of layer normalisation, with one copy per instruction set.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Below, A is float (double for Float64). mean and rstd are A; the other arrays have dtype t.
struct LayerNormLoops {
  void (*forward)(DType t, const void* x, const void* weight, const void* bias, int64_t rows,
                  int64_t n, double eps, void* y, void* mean, void* rstd);
  // gx may be null. Adds to sum_gw and sum_g (n entries of A, may be null).
  void (*backward)(DType t, const void* g, const void* x, const void* mean, const void* rstd,
                   const void* weight, int64_t rows, int64_t n, void* gx, void* sum_gw,
                   void* sum_g);
};
const LayerNormLoops& layer_norm_loops();

}  // namespace cograd::kernels
