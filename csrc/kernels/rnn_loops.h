// SPDX-License-Identifier: BSD-3-Clause
// The loops behind rnn.h, one copy per instruction set.
#pragma once
#include "kernels/rnn.h"

namespace cograd::kernels {

// Weights in the order the loops read them.
struct RnnWeights {
  const void *w_hh, *w_hr;
};
struct RnnLoops {
  // Elements of packed weights, and packing for the forward or the backward loops.
  int64_t (*packed_size)(DType t, int64_t k, int64_t n);
  void (*pack)(DType t, const void* b, int64_t row_step, int64_t col_step, int64_t k, int64_t n,
               void* out);
  // All steps for the rows [lo, hi).
  void (*forward)(DType t, const RnnSteps& s, const RnnForward& f, const RnnWeights& w, int64_t lo,
                  int64_t hi);
  void (*backward)(DType t, const RnnSteps& s, const RnnBackward& b, const RnnWeights& w,
                   int64_t lo, int64_t hi);
  void (*cell_forward)(DType t, const LstmCell& s, int64_t lo, int64_t hi);
  void (*cell_backward)(DType t, const LstmCellBackward& s, int64_t lo, int64_t hi);
};
const RnnLoops& rnn_loops();

}  // namespace cograd::kernels
