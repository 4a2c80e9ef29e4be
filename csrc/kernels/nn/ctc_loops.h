// SPDX-License-Identifier: BSD-3-Clause
// Declares the recursions of ctc.h for one sample, with one copy per instruction set.
#pragma once
#include "kernels/nn/ctc.h"

namespace cograd::kernels {

struct CtcLoops {
  // Returns the log-likelihood of sample b.
  double (*forward)(DType t, const Ctc& c, const void* log_probs, int64_t b);
  // Writes the gradients of the sample's logits into an array [steps, batch, classes] of zeros.
  void (*backward)(DType t, const Ctc& c, const void* log_probs, int64_t b, double g, void* out);
};
const CtcLoops& ctc_loops();

}  // namespace cograd::kernels
