// SPDX-License-Identifier: BSD-3-Clause
// Declares the inner loops of pool.h, with one copy per instruction set.
#pragma once
#include "kernels/nn/pool.h"

namespace cograd::kernels {

struct PoolLoops {
  void (*plane)(DType t, const PoolWindows& w, const void* x, void* y, int64_t* index);
};
const PoolLoops& pool_loops();

}  // namespace cograd::kernels
