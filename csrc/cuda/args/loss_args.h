// SPDX-License-Identifier: BSD-3-Clause
// The arguments of losses with class indices, for the host and for kernels' text.
#pragma once
#include "cuda/args/late_args.h"

namespace cograd::device {

inline constexpr int kLossThreads = 256;

struct LossArgs {
  const void *logp, *weight, *gout;  // weight may be null
  const long long* target;
  const double* weight_sum;  // of all classes, if there is smoothing and a weight
  double* partial;           // [blocks, 2]: the loss and the weights
  void *out, *total_weight;
  long long batch, classes, spatial, ignore_index, blocks;
  double hit, spread;  // weights of the target's class and of every class
  int reduction;       // 0: none, 1: mean, 2: sum
  int lanes;           // threads that share a position's classes: 1 or 32
  int softmax;         // the gradient is that of logits
  LateError* late;     // in a capture, where the host cannot check: gets a target out of bounds
  const char* op;      // on the host
};

}  // namespace cograd::device
