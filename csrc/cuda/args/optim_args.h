// SPDX-License-Identifier: BSD-3-Clause
// The arguments of optimizers' kernels, for the host and for kernels' text.
#pragma once

namespace cograd::device {

inline constexpr int kOptimOperands = 5, kOptimTensors = 64, kOptimPart = 8192;

struct OptimArgs {
  double scalars[10];
  int count;    // of tensors
  int aligned;  // 1 if all data can be read in packs
  unsigned first_block[kOptimTensors];
  struct Tensor {
    void* data[kOptimOperands];  // parameter, gradient, state
    long long n;
  } tensors[kOptimTensors];
};
static_assert(sizeof(OptimArgs) <= 4096);

}  // namespace cograd::device
