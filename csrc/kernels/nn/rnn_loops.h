// SPDX-License-Identifier: BSD-3-Clause
// Declares the loops of rnn.h, with one copy per instruction set.
#pragma once
#include "kernels/nn/rnn.h"

namespace cograd::kernels {

// Weights packed in the order in which the loops read them.
struct RnnWeights {
  const void *w_hh, *w_hr;
};
struct RnnLoops {
  // Return the number of elements of packed weights, and pack weights for forward or backward.
  int64_t (*packed_size)(DType t, int64_t k, int64_t n);
  void (*pack)(DType t, const void* b, int64_t row_step, int64_t col_step, int64_t k, int64_t n,
               void* out);
  // Run all steps for the rows [lo, hi).
  void (*forward)(DType t, const RnnSteps& s, const RnnForward& f, const RnnWeights& w, int64_t lo,
                  int64_t hi);
  void (*backward)(DType t, const RnnSteps& s, const RnnBackward& b, const RnnWeights& w,
                   int64_t lo, int64_t hi);
  void (*cell_forward)(DType t, const LstmCell& s, int64_t lo, int64_t hi);
  void (*cell_backward)(DType t, const LstmCellBackward& s, int64_t lo, int64_t hi);
};
const RnnLoops& rnn_loops();

}  // namespace cograd::kernels
