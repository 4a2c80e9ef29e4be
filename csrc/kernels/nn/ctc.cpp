// SPDX-License-Identifier: BSD-3-Clause
// Computes CTC with one task per sample.
#include "kernels/nn/ctc.h"

#include <algorithm>

#include "kernels/core/isa.h"
#include "kernels/nn/ctc_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(CtcLoops, ctc_loops)

namespace {

template <class F>
void each_sample(const Ctc& c, F&& f) {
  const HeavyScope heavy(c.steps * c.batch * 64);
  parallel_for(0, c.batch, 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) f(lo);
  });
}

template <class T>
void backward_as(DType t, const Ctc& c, const void* log_probs, const T* g, T* out) {
  std::fill_n(out, c.steps * c.batch * c.classes, T(0));
  each_sample(c, [&](int64_t b) {
    ctc_loops().backward(t, c, log_probs, b, static_cast<double>(g[b]), out);
  });
}

}  // namespace

void ctc_forward(DType t, const Ctc& c, const void* log_probs, void* losses) {
  COGRAD_SLOT(ctc_forward, t, c, log_probs, losses);
  each_sample(c, [&](int64_t b) {
    const double loss = -ctc_loops().forward(t, c, log_probs, b);
    if (t == DType::Float64)
      static_cast<double*>(losses)[b] = loss;
    else
      static_cast<float*>(losses)[b] = static_cast<float>(loss);
  });
}

void ctc_backward(DType t, const Ctc& c, const void* log_probs, const void* g, void* out) {
  COGRAD_SLOT(ctc_backward, t, c, log_probs, g, out);
  if (t == DType::Float64)
    backward_as(t, c, log_probs, static_cast<const double*>(g), static_cast<double*>(out));
  else
    backward_as(t, c, log_probs, static_cast<const float*>(g), static_cast<float*>(out));
}

bool ctc_labels_within(const int64_t* labels, int64_t n, int64_t width, const int64_t* lengths,
                       int64_t classes, int64_t* bad) {
  COGRAD_SLOT_OR(true, ctc_labels_within, labels, n, width, lengths, classes, bad);
  for (int64_t k = 0; k < n; ++k) {
    *bad = labels[k];
    const bool used = width == 0 || k % width < lengths[k / width];
    if (used && (*bad < 0 || *bad >= classes)) return false;
  }
  return true;
}

}  // namespace cograd::kernels
