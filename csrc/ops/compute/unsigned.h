// SPDX-License-Identifier: BSD-3-Clause
// Runs ops on signed integers where no kernel supports uint16, uint32 and uint64.
#pragma once
#include "ops/compute/elementwise.h"

namespace cograd {

// Returns a scalar as the 64 bits of an unsigned element; narrower dtypes truncate them.
int64_t unsigned_bits(const Scalar& s) noexcept;

// How a row computes in a dtype.
struct RowWay {
  kernels::LoopFn fn;
  DType inner;   // the dtype that its loop runs on
  bool ordered;  // operands are mapped to signed integers of the same order
};
// A row without a loop for an unsigned dtype computes as its types column says (ORDERED, WIDENED).
// Raises if the row cannot compute in `t`.
RowWay way_of(kernels::ElementRow row, DType t, const char* name);

// Maps to signed integers of the same size and order, without autograd; other dtypes are unchanged.
Tensor in_signed_order(const Tensor& x);
// Inverts in_signed_order(): writes `x`, which is signed, to the unsigned `out` of the same size.
void from_signed_order(const Tensor& out, const Tensor& x);

}  // namespace cograd
