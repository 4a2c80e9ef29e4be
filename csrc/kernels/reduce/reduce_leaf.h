// SPDX-License-Identifier: BSD-3-Clause
// The inner loops of reductions as a table of functions; there is one table per instruction set.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Reductions that the leaf loops implement; several public ops share one.
enum class LeafOp : uint8_t {
  Sum,
  SumPairs,
  Prod,
  Min,
  Max,
  Nonzero,
  SumSquares,
  SumAbs,
  MaxAbs,
  MinAbs,
  ArgMin,
  ArgMax,
  LogSumExp,
  Var,
  PowerSum,
};

// For the simple ops the state is an int64 or a double, depending on the input's kind. SumPairs
// sums the elements at even and at odd places into two doubles; it has row() alone.
struct LseState {
  double max;  // -inf: no element seen
  double sum;  // sum of exp(x - max)
};
struct VarState {
  double count;
  double mean;
  double m2;
};
template <class W>
struct ArgState {
  W value;
  int64_t index;  // -1: no element seen
};

// Leaf loops fold elements into `state`; index0 is the number of the first element. The geometry
// alone fixes the order of calls, so results do not depend on the number of threads. Loops exist
// for float, double and int64; other dtypes are widened into a buffer first.
struct ReduceLeaf {
  int64_t state_size = 0;
  void (*init)(void* state, int64_t count) = nullptr;
  // Folds n elements, `stride` bytes apart, into one state.
  void (*row)(const ReduceLeaf& leaf, void* state, const char* x, int64_t n, int64_t stride,
              int64_t index0) = nullptr;
  // Folds `count` rows of n elements, `stride` bytes apart, into one state each, in the order of
  // row(); null if the op has no such loop.
  void (*rows)(const ReduceLeaf& leaf, void* states, const char* x, int64_t count,
               int64_t row_stride, int64_t n, int64_t stride) = nullptr;
  // Folds rows x m elements, adjacent along m, into m states; consecutive rows differ by one index.
  void (*col)(const ReduceLeaf& leaf, void* state, const char* x, int64_t m, int64_t rows,
              int64_t row_stride, int64_t index0) = nullptr;
  void (*merge)(void* state, const void* other, int64_t count) = nullptr;

  int64_t itemsize = 0;
  bool native = false;          // elements already have the accumulator's type
  uint64_t magnitude_mask = 0;  // bits that make a value non-zero
  double exponent = 0;          // exponent of PowerSum
  void (*widen)(const char* x, int64_t n, int64_t stride, void* out) = nullptr;
};

// Returns the table of the best instruction set that this machine has.
ReduceLeaf reduce_leaf(LeafOp op, DType t);

}  // namespace cograd::kernels
