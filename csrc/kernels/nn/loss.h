// SPDX-License-Identifier: BSD-3-Clause
// Negative log likelihood and cross entropy with class indices, forward and backward.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

enum class Reduction : uint8_t { None, Mean, Sum };

struct NllGeometry {
  int64_t batch = 1;    // N
  int64_t classes = 1;  // C; the arrays are contiguous [N, C, spatial], targets [N, spatial]
  int64_t spatial = 1;
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  Reduction reduction = Reduction::Mean;
};

// logp holds log-probabilities; weight (C entries of logp's dtype) may be null. out is [N, spatial]
// for None, else one element. total_weight (one element of logp's dtype) is the divisor of Mean and
// is always written. Raises IndexError first if a target is outside [0, C).
void nll_loss_forward(DType t, const NllGeometry& g, const void* logp, const int64_t* target,
                      const void* weight, void* out, void* total_weight);
// gout has out's shape; all of glogp is written.
void nll_loss_backward(DType t, const NllGeometry& g, const void* gout, const int64_t* target,
                       const void* weight, const void* total_weight, void* glogp);

// Computes log_softmax and nll in one pass. Writes logp [N, C, spatial] for backward.
void cross_entropy_forward(DType t, const NllGeometry& g, const void* logits, const int64_t* target,
                           const void* weight, void* logp, void* out, void* total_weight);
// Computes glogits = (softmax * sum of target weights - target weights) * gout; may overwrite logp.
void cross_entropy_backward(DType t, const NllGeometry& g, const void* gout, const void* logp,
                            const int64_t* target, const void* weight, const void* total_weight,
                            void* glogits);

}  // namespace cograd::kernels
