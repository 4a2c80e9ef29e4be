// SPDX-License-Identifier: BSD-3-Clause
// The steps of one recurrent layer in one direction. The caller computes everything that does not
// depend on the previous step: products with the input and gradients of weights.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

enum class RnnMode : uint8_t { Tanh, Relu, Lstm, Gru };

// Values of step t for `sizes[t]` rows begin at row offsets[t]; sizes never grow with t. All arrays
// are contiguous and have one dtype, float or double. G is the mode's number of gates: 1, 4 or 3.
struct RnnSteps {
  RnnMode mode;
  bool reverse;           // runs from the last step to the first
  int64_t steps, batch;   // `batch` is the number of rows of the states
  int64_t hidden, width;  // `width` of the output is less than `hidden` if projected
  const int64_t *sizes, *offsets;
  const void* w_hh;  // [G * hidden, width]
  const void* w_hr;  // [width, hidden], may be null
  const void* b_hn;  // gru: [hidden], bias of the state's product in the new gate; may be null

  int64_t gates() const { return mode == RnnMode::Lstm ? 4 : mode == RnnMode::Gru ? 3 : 1; }

  template <class F>
  void each_pointer(F&& f) {
    f(sizes);
    f(offsets);
    f(w_hh);
    f(w_hr);
    f(b_hn);
  }
};

struct RnnForward {
  void* gates;  // in: products with the input plus biases [total, G * hidden]; out: activations
  void* cells;  // lstm: cells [total, hidden]; gru: the new gate's product with the state
  void* raw;    // lstm with projection: the values before projection [total, hidden]
  void* out;    // [total, width]
  void *h, *c;  // in: initial states [batch, width], [batch, hidden]; out: final states

  template <class F>
  void each_pointer(F&& f) {
    for (void** p : {&gates, &cells, &raw, &out, &h, &c}) f(*p);
  }
};
void rnn_forward(DType t, const RnnSteps& s, const RnnForward& f);

struct RnnBackward {
  const void *gates, *cells, *out, *h0, *c0;  // saved by forward
  const void* g_out;                          // [total, width], may be null
  void *gh, *gc;        // in: gradients of the final states; out: of the initial states
  void* g_gates;        // out: gradients of the products with the input [total, G * hidden]
  void* g_state_gates;  // out, gru: gradients of the products with the state, same shape
  void* g_raw;          // out, projection: gradients of the projected values [total, width]
  void* h_before;       // out: the state that each step read [total, width]

  template <class F>
  void each_pointer(F&& f) {
    for (const void** p : {&gates, &cells, &out, &h0, &c0, &g_out}) f(*p);
    for (void** p : {&gh, &gc, &g_gates, &g_state_gates, &g_raw, &h_before}) f(*p);
  }
};
void rnn_backward(DType t, const RnnSteps& s, const RnnBackward& b);

// One step of an LSTM up to its output gate and its cell; all arrays are contiguous and have one
// dtype.
struct LstmCell {
  int64_t rows, hidden;
  const void *gates, *c;  // gates before activation [rows, 4 * hidden]; the previous cell
  void *o, *cell;         // the output gate and the new cell

  template <class F>
  void each_pointer(F&& f) {
    f(gates);
    f(c);
    f(o);
    f(cell);
  }
};
void lstm_cell(DType t, const LstmCell& s);

struct LstmCellBackward {
  int64_t rows, hidden;
  const void *gates, *c;
  const void *g_o, *g_cell;
  void *g_gates, *g_c;

  template <class F>
  void each_pointer(F&& f) {
    for (const void** p : {&gates, &c, &g_o, &g_cell}) f(*p);
    f(g_gates);
    f(g_c);
  }
};
void lstm_cell_backward(DType t, const LstmCellBackward& s);

}  // namespace cograd::kernels
