// SPDX-License-Identifier: BSD-3-Clause
// Declares the loops of attention.h, with one copy per instruction set.
#pragma once
#include "kernels/nn/attention.h"

namespace cograd::kernels {

// Sizes of a block; each is a multiple of every tile and panel.
inline constexpr int64_t kAttentionRows = 96;
inline constexpr int64_t kAttentionKeys = 128;

// Writes dropout's factors for keys [first, first + n) of row `row` of all rows; `first` must be a
// multiple of 4.
void attention_factors(const Attention& a, int64_t row, int64_t first, int64_t n, float* out);

struct AttentionLoops {
  // Returns the number of elements of one matrix's packed keys and values.
  int64_t (*elements)(DType t, const Attention& a);
  // Packs a block of keys and values of matrix `head`, whose packed elements begin at `to`.
  void (*pack)(DType t, const Attention& a, int64_t head, int64_t block, void* to);
  // Computes blocks [lo, hi) of all matrices' rows, in the order of the matrices. `packed` has the
  // keys and values of the matrices from `first_head` on.
  void (*forward)(DType t, const Attention& a, const void* packed, int64_t first_head,
                  const Matrices& out, void* stats, int64_t lo, int64_t hi);
  // Computes blocks [lo, hi) of the query rows of one matrix of keys; adds to gk and gv
  // [keys, size].
  void (*backward)(DType t, const Attention& a, const Matrices& out, const Matrices& g,
                   const void* stats, const Matrices& gq, int64_t of_keys, int64_t lo, int64_t hi,
                   void* gk, int64_t gk_step, void* gv, int64_t gv_step);
};
const AttentionLoops& attention_loops();

}  // namespace cograd::kernels
