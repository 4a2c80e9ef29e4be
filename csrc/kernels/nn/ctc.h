// SPDX-License-Identifier: BSD-3-Clause
// Connectionist temporal classification (Graves et al. 2006): computes the sum over all alignments
// of a target to a sequence, by the forward and backward recursions in log space.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

struct Ctc {
  int64_t steps, batch, classes, blank;
  const int64_t* targets;  // sample b has target_lengths[b] targets from offsets[b] on
  const int64_t *offsets, *input_lengths, *target_lengths;

  template <class F>
  void each_pointer(F&& f) {
    f(targets);
    f(offsets);
    f(input_lengths);
    f(target_lengths);
  }
};
// Reads contiguous log_probs [steps, batch, classes]; writes losses [batch], minus the
// log-likelihoods.
void ctc_forward(DType t, const Ctc& c, const void* log_probs, void* losses);
// Writes to `out` the gradients with respect to the logits whose log_softmax is log_probs, for the
// gradients g [batch] of the losses.
void ctc_backward(DType t, const Ctc& c, const void* log_probs, const void* g, void* out);
// Returns true if the labels that belong to targets are all in [0, classes); else `bad` receives
// the first other one. Row b of `width` labels has lengths[b] of them; with width 0, all belong.
bool ctc_labels_within(const int64_t* labels, int64_t n, int64_t width, const int64_t* lengths,
                       int64_t classes, int64_t* bad);

}  // namespace cograd::kernels
