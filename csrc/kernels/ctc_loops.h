// SPDX-License-Identifier: BSD-3-Clause
// The recursions behind ctc.h for one sample, one copy per instruction set.
#pragma once
#include "kernels/ctc.h"

namespace cograd::kernels {

struct CtcLoops {
  // The log-likelihood of sample b.
  double (*forward)(DType t, const Ctc& c, const void* log_probs, int64_t b);
  // Gradients of its logits, into an array [steps, batch, classes] of zeros.
  void (*backward)(DType t, const Ctc& c, const void* log_probs, int64_t b, double g, void* out);
};
const CtcLoops& ctc_loops();

}  // namespace cograd::kernels
