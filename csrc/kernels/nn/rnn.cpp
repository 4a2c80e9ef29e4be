// SPDX-License-Identifier: BSD-3-Clause
// Divides the rows of a recurrent layer among threads; no thread waits for another between steps.
#include "kernels/nn/rnn.h"

#include <algorithm>
#include <memory>

#include "kernels/core/isa.h"
#include "kernels/nn/rnn_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(RnnLoops, rnn_loops)

namespace {

// Number of elements of a cell that are worth a thread.
constexpr int64_t kCellGrain = 1 << 12;

// Holds a matrix packed as the loops read it.
class Packed {
 public:
  Packed(DType t, const void* b, int64_t row_step, int64_t col_step, int64_t k, int64_t n) {
    if (b == nullptr) return;
    const int64_t bytes = rnn_loops().packed_size(t, k, n) * dtype_size(t);
    data_.reset(new char[static_cast<size_t>(bytes)]);
    rnn_loops().pack(t, b, row_step, col_step, k, n, data_.get());
  }
  const void* get() const { return data_.get(); }

 private:
  std::unique_ptr<char[]> data_;
};

// A row's values do not depend on the other rows of its piece, so pieces may depend on the number
// of threads.
template <class F>
void each_piece(const RnnSteps& s, F&& f) {
  constexpr int64_t kLeast = 4, kWork = 1 << 18;
  const int64_t total = s.steps == 0 ? 0 : s.offsets[s.steps - 1] + s.sizes[s.steps - 1];
  const int64_t work = total * s.gates() * s.hidden * s.width;
  const HeavyScope heavy(work);
  const int64_t share = (s.batch + num_threads() - 1) / num_threads();
  const int64_t grain = work < kWork ? s.batch : std::max(kLeast, share);
  parallel_for(0, s.batch, grain, f);
}

}  // namespace

void rnn_forward(DType t, const RnnSteps& s, const RnnForward& f) {
  COGRAD_SLOT(rnn_forward, t, s, f);
  const Packed w_hh(t, s.w_hh, 1, s.width, s.width, s.gates() * s.hidden);
  const Packed w_hr(t, s.w_hr, 1, s.hidden, s.hidden, s.width);
  const RnnWeights w{w_hh.get(), w_hr.get()};
  each_piece(s, [&](int64_t lo, int64_t hi) { rnn_loops().forward(t, s, f, w, lo, hi); });
}

void rnn_backward(DType t, const RnnSteps& s, const RnnBackward& b) {
  COGRAD_SLOT(rnn_backward, t, s, b);
  const Packed w_hh(t, s.w_hh, s.width, 1, s.gates() * s.hidden, s.width);
  const Packed w_hr(t, s.w_hr, s.hidden, 1, s.width, s.hidden);
  const RnnWeights w{w_hh.get(), w_hr.get()};
  each_piece(s, [&](int64_t lo, int64_t hi) { rnn_loops().backward(t, s, b, w, lo, hi); });
}

void lstm_cell(DType t, const LstmCell& s) {
  COGRAD_SLOT(lstm_cell, t, s);
  parallel_for(0, s.rows, kCellGrain / (s.hidden + 1) + 1,
               [&](int64_t lo, int64_t hi) { rnn_loops().cell_forward(t, s, lo, hi); });
}
void lstm_cell_backward(DType t, const LstmCellBackward& s) {
  COGRAD_SLOT(lstm_cell_backward, t, s);
  parallel_for(0, s.rows, kCellGrain / (s.hidden + 1) + 1,
               [&](int64_t lo, int64_t hi) { rnn_loops().cell_backward(t, s, lo, hi); });
}

}  // namespace cograd::kernels
