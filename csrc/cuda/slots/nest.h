// SPDX-License-Identifier: BSD-3-Clause
// The loop nest of operands that strides describe: dims of size 1 dropped, sorted by the strides of
// the output, then of the inputs, and merged where all operands allow it.
#pragma once
#include <cstdint>

#include "cuda/args/loop_args.h"
#include "kernels/core/loops.h"

namespace cograd::cuda {

// The innermost dim comes first.
struct Nest {
  int nops, ndim = 0;
  int64_t total = 1;
  char* data[kernels::kMaxOperands];
  int64_t shape[kernels::kMaxDims];
  int64_t strides[kernels::kMaxDims][kernels::kMaxOperands];

  Nest(int dims, const int64_t* sizes, const kernels::Operand* ops, int count);
  // True if operand k is the same element everywhere.
  bool single(int k) const noexcept;
  // True if the elements of operand k, of `size` bytes, lie one after another.
  bool contiguous(int k, int64_t size) const noexcept;
};

// Writes a dim for kernels, with the numbers by which they divide indices below 2^31.
void set_dim(device::StridedArgs::Dim& dim, int64_t size) noexcept;

}  // namespace cograd::cuda
