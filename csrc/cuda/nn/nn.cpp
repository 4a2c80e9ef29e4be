// SPDX-License-Identifier: BSD-3-Clause
// The slots of dropout, LSTM cells and ties.
#include "cuda/args/nn_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "kernels/nn/dropout.h"
#include "kernels/nn/rnn.h"
#include "kernels/reduce/ties.h"

namespace cograd::cuda {

using device::kNnThreads;

namespace {

std::string cell_defines(uint64_t v) {
  return std::string("-DCOGRAD_CELLS -DCOGRAD_T=") + stored_type(static_cast<DType>(v));
}

}  // namespace

void masked_scale(DType t, const void* x, const bool* keep, double scale, int64_t n, void* out) {
  if (n == 0) return;
  const device::ScaleArgs a{x, reinterpret_cast<const unsigned char*>(keep), out, scale, n};
  const auto defines = [](uint64_t v) {
    const auto dtype = static_cast<DType>(v);
    return std::string("-DCOGRAD_T=") + stored_type(dtype) +
           (is_complex(dtype) ? " -DCOGRAD_COMPLEX" : "");
  };
  launch("masked_scale", function_of("nn.h", "masked_scale", static_cast<uint64_t>(t), defines),
         grid_over(n, kNnThreads), a);
}

void lstm_cell(DType t, const kernels::LstmCell& s) {
  if (s.rows * s.hidden == 0) return;
  const device::CellArgs a{s.gates, s.c, nullptr, nullptr, s.o, s.cell, s.rows, s.hidden};
  launch("lstm_cell", function_of("nn.h", "lstm_cell", static_cast<uint64_t>(t), cell_defines),
         grid_over(s.rows * s.hidden, kNnThreads), a);
}
void lstm_cell_backward(DType t, const kernels::LstmCellBackward& s) {
  if (s.rows * s.hidden == 0) return;
  const device::CellArgs a{s.gates, s.c, s.g_o, s.g_cell, s.g_gates, s.g_c, s.rows, s.hidden};
  launch("lstm_cell_backward",
         function_of("nn.h", "lstm_cell_backward", static_cast<uint64_t>(t), cell_defines),
         grid_over(s.rows * s.hidden, kNnThreads), a);
}

void split_ties(DType t, const void* x, int64_t outer, int64_t n, int64_t inner, const void* y,
                const void* g, bool nan_ties, void* out) {
  const int64_t lines = outer * inner;
  if (lines * n == 0) return;
  const Scratch counts(lines * static_cast<int64_t>(sizeof(int64_t)));
  const device::TiesArgs a{
      x, y, g, out, static_cast<long long*>(counts.data()), outer, n, inner, nan_ties ? 1 : 0};
  const int64_t side = inner == 1 ? 1 : 32;
  Grid grid = grid_of(ceil_div(lines, side), static_cast<int>(side));
  grid.threads[1] = static_cast<unsigned>(kNnThreads / side);
  launch("split_ties", function_of("nn.h", "tie_counts", t), grid, a);
  launch("split_ties", function_of("nn.h", "tie_shares", t), grid_over(lines * n, kNnThreads), a);
}

COGRAD_CUDA_SLOT(masked_scale)
COGRAD_CUDA_SLOT(lstm_cell)
COGRAD_CUDA_SLOT(lstm_cell_backward)
COGRAD_CUDA_SLOT(split_ties)

}  // namespace cograd::cuda
