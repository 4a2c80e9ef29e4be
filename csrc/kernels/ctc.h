// SPDX-License-Identifier: BSD-3-Clause
// Connectionist temporal classification (Graves et al. 2006): the sum over all alignments of a
// target to a sequence, by the forward and backward recursions in log space.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

struct Ctc {
  int64_t steps, batch, classes, blank;
  const int64_t* targets;  // of sample b from offsets[b] on, target_lengths[b] of them
  const int64_t *offsets, *input_lengths, *target_lengths;
};
// log_probs [steps, batch, classes], contiguous; losses [batch]: minus the log-likelihoods.
void ctc_forward(DType t, const Ctc& c, const void* log_probs, void* losses);
// Gradients of the logits whose log_softmax the log_probs are, for the gradients g [batch] of the
// losses; writes all of `out`.
void ctc_backward(DType t, const Ctc& c, const void* log_probs, const void* g, void* out);

}  // namespace cograd::kernels
