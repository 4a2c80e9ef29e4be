// SPDX-License-Identifier: BSD-3-Clause
// Computes small products of float or double in register tiles, with one copy per instruction set.
// OpenBLAS spends more time on packing and dispatch for these than on multiplying.
#pragma once
#include "kernels/product/gemm_small.h"

namespace cograd::kernels {

struct GemmTile {
  // Computes the whole product on this thread; requires k > 0 and Float32 or Float64.
  void (*run)(DType t, const GemmArgs& g);
};
const GemmTile& gemm_tile();

}  // namespace cograd::kernels
