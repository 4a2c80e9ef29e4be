// SPDX-License-Identifier: BSD-3-Clause
// The steps of one recurrent layer in one direction; what does not depend on the step before is
// the caller's: products with the input, gradients of weights.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

enum class RnnMode : uint8_t { Tanh, Relu, Lstm, Gru };

// Values of a step for `sizes[t]` rows begin at row offsets[t]; sizes never grow with t. All arrays
// are contiguous and of one dtype, float or double. G: gates of the mode, 1, 4 or 3.
struct RnnSteps {
  RnnMode mode;
  bool reverse;           // from the last step to the first
  int64_t steps, batch;   // batch: rows of the states
  int64_t hidden, width;  // width: of the output, less than hidden if projected
  const int64_t *sizes, *offsets;
  const void* w_hh;  // [G * hidden, width]
  const void* w_hr;  // [width, hidden] or null
  const void* b_hn;  // gru: [hidden], of the product with the state in the new gate; or null

  int64_t gates() const { return mode == RnnMode::Lstm ? 4 : mode == RnnMode::Gru ? 3 : 1; }
};

struct RnnForward {
  void* gates;  // in: products with the input and biases [total, G * hidden]; out: activations
  void* cells;  // lstm: cells [total, hidden]; gru: the new gate's product with the state
  void* raw;    // lstm with projection: what is projected [total, hidden]
  void* out;    // [total, width]
  void *h, *c;  // in: first states [batch, width], [batch, hidden]; out: last ones
};
void rnn_forward(DType t, const RnnSteps& s, const RnnForward& f);

struct RnnBackward {
  const void *gates, *cells, *out, *h0, *c0;  // saved
  const void* g_out;                          // [total, width] or null
  void *gh, *gc;                              // in: gradients of the last states; out: of the first
  void* g_gates;        // out: of the products with the input [total, G * hidden]
  void* g_state_gates;  // out, gru: of the products with the state, likewise
  void* g_raw;          // out, projection: of the projected values [total, width]
  void* h_before;       // out: the state each step saw [total, width]
};
void rnn_backward(DType t, const RnnSteps& s, const RnnBackward& b);

// One step of an LSTM up to its output gate and its cell; all contiguous and of one dtype.
struct LstmCell {
  int64_t rows, hidden;
  const void *gates, *c;  // before their activations [rows, 4 * hidden]; the cell before
  void *o, *cell;         // the output gate, the new cell
};
void lstm_cell(DType t, const LstmCell& s);

struct LstmCellBackward {
  int64_t rows, hidden;
  const void *gates, *c;
  const void *g_o, *g_cell;
  void *g_gates, *g_c;
};
void lstm_cell_backward(DType t, const LstmCellBackward& s);

}  // namespace cograd::kernels
