// SPDX-License-Identifier: BSD-3-Clause
// Computes softmax(q k^T scale + mask) v block by block: no array of rows x keys is ever made.
#pragma once
#include <cstdint>
#include <optional>

#include "cograd/dtype.h"
#include "kernels/random/random.h"

namespace cograd::kernels {

// Locates the matrices of an operand: one for each index of the leading dims, `steps` elements
// apart along them. The rows are row_step apart, and the elements of a row are adjacent.
struct Matrices {
  const void* data = nullptr;
  const int64_t* steps = nullptr;
  int64_t row_step = 0;
  const int64_t* offsets = nullptr;  // of each matrix; the CPU's kernels fill these in

  template <class F>
  void each_pointer(F&& f) {
    f(data);
  }
};
struct AttentionMask {
  const void* data = nullptr;  // null means no mask
  DType dtype = DType::Bool;   // where a bool mask is true takes part; others are added
  const int64_t* steps = nullptr;
  int64_t row_step = 0, col_step = 0;
  const int64_t* offsets = nullptr;

  template <class F>
  void each_pointer(F&& f) {
    f(data);
  }
};
// Attention of `count` matrices of queries, over the leading dims `sizes`; each matrix of keys and
// values serves `group` of them in turn along the last of these dims.
struct Attention {
  int64_t count, group, rows, keys, size, value_size;
  double scale;
  bool causal;     // row i sees only keys 0 to i
  double dropout;  // probability with which `random` zeroes a weight
  PhiloxState random;
  const int64_t* sizes;
  int dims;
  Matrices q, k, v;
  AttentionMask mask;

  int64_t dropout_blocks() const { return (keys + 3) / 4; }  // blocks of the random stream per row

  template <class F>
  void each_pointer(F&& f) {
    f(q.data);
    f(k.data);
    f(v.data);
    f(mask.data);
  }
};

// Returns the dtype in which tensors of dtype t and rows of these lengths are taken, and written;
// none if there is no kernel for them. On the CPU that is float or double.
std::optional<DType> attention_dtype(DType t, int64_t size, int64_t value_size);
// `stats` [2, count, rows] receives each row's largest score and the inverse of its sum of
// exp(score - largest), or inf and 0 for a row that sees no key; the output of such a row is zero.
// They are in float for dtypes of 16 bits. One number, the log of the sum of exponentials, would
// lose the sum where all scores of a row are huge.
void attention_forward(DType t, const Attention& a, const Matrices& out, void* stats);
// Writes the gradients; `out` and `g` are forward's result and its gradient.
void attention_backward(DType t, const Attention& a, const Matrices& out, const Matrices& g,
                        const void* stats, const Matrices& gq, const Matrices& gk,
                        const Matrices& gv);
// Writes the factors by which dropout multiplies weights: 0 or 1 / (1 - p), [count, rows, keys], in
// float or double.
void attention_keep(DType t, const Attention& a, void* out);

}  // namespace cograd::kernels
