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
    const double* scalars;  // on the device, instead of those above; null if the host has counted
  } tensors[kOptimTensors];
};
static_assert(sizeof(OptimArgs) <= 4096);

// Counts a step of parameters whose counters are on the device, and computes their scalars.
struct OptimCountArgs {
  double scalars[10];     // of all, as if beta^step were 0
  double beta1, beta2;    // 0: there is no correction
  double* out;            // 10 for each
  int count, rate, root;  // positions of the scalars that are divided
  struct Counter {
    void* at;
    int single;
  } counters[kOptimTensors];
};
static_assert(sizeof(OptimCountArgs) <= 4096);

}  // namespace cograd::device
