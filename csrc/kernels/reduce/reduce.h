// SPDX-License-Identifier: BSD-3-Clause
// Reductions of a strided array over any set of dimensions.
#pragma once
#include <cstdint>
#include <span>

#include "cograd/dtype.h"

namespace cograd::kernels {

// The input, split into kept and reduced dimensions; strides are in bytes and may be zero or
// negative. Outputs are contiguous over the kept dimensions in the given order.
struct ReduceGeometry {
  std::span<const int64_t> kept_sizes;
  std::span<const int64_t> kept_strides;
  std::span<const int64_t> reduced_sizes;
  std::span<const int64_t> reduced_strides;
};

enum class ReduceOp : uint8_t {
  Sum,           // bool and integers accumulate in int64, float16/bfloat16/float32 in float
  Mean,          // floating input only; 0/0 for an empty reduction
  Prod,          // accumulates like Sum
  Min,           // NaN wins; out dtype = in dtype
  Max,           // NaN wins; out dtype = in dtype
  All,           // out Bool (or UInt8)
  Any,           // out Bool (or UInt8)
  CountNonzero,  // out Int64
  SumSquares,    // floating input only
  Norm0,         // number of non-zeros, as a float
  Norm1,
  Norm2,
  NormInf,     // max |x|; 0 for an empty reduction
  NormNegInf,  // min |x|; inf for an empty reduction
  LogSumExp,   // -inf for an empty reduction
};

// Computes y = op(x) over the reduced dimensions. `out` may be any dtype of the accumulator's kind
// (integer sum into int64/int32/bool, float sum into float16..float64). Min and Max need at least
// one element: the caller raises if there is none.
void reduce(ReduceOp op, DType in, const void* x, const ReduceGeometry& g, DType out, void* y);

// Computes (sum |x|^p)^(1/p); for p = 0, 1, 2, inf and -inf it uses the special ops above.
void reduce_norm(double p, DType in, const void* x, const ReduceGeometry& g, DType out, void* y);

// Computes the extreme value and its first position in the flattened (C order) reduced dimensions;
// NaN wins. Either output may be null. The caller raises for an empty reduction.
void reduce_extreme(bool largest, DType in, const void* x, const ReduceGeometry& g, void* values,
                    int64_t* indices);

// Computes the variance (or its square root) with divisor max(n - correction, 0), and the mean if
// not null.
void reduce_var(DType in, const void* x, const ReduceGeometry& g, double correction, bool take_sqrt,
                DType out, void* var, void* mean);

// Returns true if no element is zero.
bool all_nonzero(DType t, const void* x, const ReduceGeometry& g);
// Returns the sum of n contiguous complex elements.
Complex<double> complex_sum(DType t, const void* x, int64_t n);

}  // namespace cograd::kernels
