// SPDX-License-Identifier: BSD-3-Clause
// softmax(q k^T scale + mask) v by blocks: no array of rows x keys is ever made.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"
#include "kernels/random.h"

namespace cograd::kernels {

// Where the matrices of an operand lie: matrix n at data + offsets[n] elements, its rows row_step
// apart, their elements side by side.
struct Matrices {
  const void* data = nullptr;
  const int64_t* offsets = nullptr;
  int64_t row_step = 0;
};
struct AttentionMask {
  const void* data = nullptr;  // null: none
  bool truth = false;          // true takes part; otherwise numbers to add
  const int64_t* offsets = nullptr;
  int64_t row_step = 0, col_step = 0;
};
// `count` matrices of queries; each matrix of keys and values serves `group` of them in turn.
struct Attention {
  int64_t count, group, rows, keys, size, value_size;
  double scale;
  bool causal;     // row i sees keys 0 to i
  double dropout;  // probability with which a weight is zeroed, by `random`
  PhiloxState random;
  Matrices q, k, v;
  AttentionMask mask;

  int64_t dropout_blocks() const { return (keys + 3) / 4; }  // of the stream, a row
};

// float or double. lse: the rows' log of the sum of exponentials [count, rows], inf where a row
// sees nothing; its output is zero.
void attention_forward(DType t, const Attention& a, const Matrices& out, void* lse);
// Gradients, zeroed by the caller; `out` and `g` are forward's result and its gradient.
void attention_backward(DType t, const Attention& a, const Matrices& out, const Matrices& g,
                        const void* lse, const Matrices& gq, const Matrices& gk,
                        const Matrices& gv);
// The factors that dropout multiplies weights by: 0 or 1 / (1 - p), [count, rows, keys].
void attention_keep(DType t, const Attention& a, void* out);

}  // namespace cograd::kernels
