// SPDX-License-Identifier: BSD-3-Clause
// Float products on one thread from packed blocks and register tiles; one copy per level.
#pragma once
#include "kernels/gemm_small.h"

namespace cograd::kernels {

// One product. The order in which an element's terms are added depends on k alone, so that any
// division of C into pieces gives the same bits.
using GemmBlock = void (*)(const GemmArgs& g);

// nullptr below v4, where OpenBLAS is as fast, and for other dtypes than float32 and float64.
GemmBlock gemm_block(DType t);

}  // namespace cograd::kernels
