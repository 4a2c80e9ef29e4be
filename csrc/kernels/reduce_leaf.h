// SPDX-License-Identifier: BSD-3-Clause
// The inner loops of reductions as a table of functions, one table per instruction set.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Reductions as the leaf loops know them; several public ops share one.
enum class LeafOp : uint8_t {
  Sum,
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

// A state is int64 or double (of the input's kind) for the simple ops.
struct LseState {
  double max;  // -inf: nothing seen
  double sum;  // of exp(x - max)
};
struct VarState {
  double count;
  double mean;
  double m2;
};
template <class W>
struct ArgState {
  W value;
  int64_t index;  // -1: nothing seen
};

// Leaf loops fold elements into `state`; index0 numbers the first of them. Order of calls is
// fixed by the geometry alone, so results do not depend on the thread count. Loops exist for the
// accumulator types float, double and int64; other dtypes are widened into a buffer first.
struct ReduceLeaf {
  int64_t state_size = 0;
  void (*init)(void* state, int64_t count) = nullptr;
  // n elements, stride in bytes, into one state.
  void (*row)(const ReduceLeaf& leaf, void* state, const char* x, int64_t n, int64_t stride,
              int64_t index0) = nullptr;
  // rows x m elements, unit stride along m, into m states; consecutive rows differ by one index.
  void (*col)(const ReduceLeaf& leaf, void* state, const char* x, int64_t m, int64_t rows,
              int64_t row_stride, int64_t index0) = nullptr;
  void (*merge)(void* state, const void* other, int64_t count) = nullptr;

  int64_t itemsize = 0;
  bool native = false;          // elements already have the accumulator's type
  uint64_t magnitude_mask = 0;  // bits that make a value non-zero
  double exponent = 0;          // of PowerSum
  void (*widen)(const char* x, int64_t n, int64_t stride, void* out) = nullptr;
};

// The table of the best instruction set this machine has.
ReduceLeaf reduce_leaf(LeafOp op, DType t);

}  // namespace cograd::kernels
