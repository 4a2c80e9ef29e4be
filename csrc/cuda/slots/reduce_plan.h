// SPDX-License-Identifier: BSD-3-Clause
// Divides a reduction among blocks and starts its kernels.
#pragma once
#include "cuda/args/reduce_args.h"
#include "kernels/reduce/reduce.h"

namespace cograd::cuda {

using device::ReduceArgs;

// The states of text/reduce_leaf.h.
enum class Leaf : uint8_t {
  Sum,
  Prod,
  Min,
  Max,
  Nonzero,
  SumSquares,
  SumAbs,
  MaxAbs,
  MinAbs,
  PowerSum,
  ArgMax,
  ArgMin,
  LogSumExp,
  Var,
  FirstOutside,
  FirstNonzero,
  FirstNan,
  FirstInf,
  FirstNonfinite,
  FirstBadTarget,
};

// Runs a reduction of x; `a` has the outputs and how to finish. The numbers of terms, which some
// states keep, are those in C order if `ordered`.
void run_reduction(const char* slot, Leaf leaf, DType in, const void* x,
                   const kernels::ReduceGeometry& g, bool ordered, ReduceArgs& a);
// Returns the number of the first of n adjacent elements that the leaf looks for; -1 if none.
int64_t find_first(const char* slot, Leaf leaf, DType in, const void* x,
                   const kernels::ReduceGeometry& g, double p = 0, double q = 0);
int64_t find_first(const char* slot, Leaf leaf, DType in, const void* x, int64_t n, double p = 0,
                   double q = 0);

}  // namespace cograd::cuda
