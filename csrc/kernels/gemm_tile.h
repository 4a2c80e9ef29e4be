// SPDX-License-Identifier: BSD-3-Clause
// Small products of float or double in register tiles, one copy per instruction set: for these
// OpenBLAS spends longer on packing and on choosing than on multiplying.
#pragma once
#include "kernels/gemm_small.h"

namespace cograd::kernels {

struct GemmTile {
  // The whole product on this thread; k > 0, Float32 or Float64.
  void (*run)(DType t, const GemmArgs& g);
};
const GemmTile& gemm_tile();

}  // namespace cograd::kernels
