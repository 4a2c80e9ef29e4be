// SPDX-License-Identifier: BSD-3-Clause
// Runs ops on signed integers where no kernel supports uint16, uint32 and uint64.
#pragma once
#include "ops/compute/elementwise.h"

namespace cograd {

// Returns a scalar as the 64 bits of an unsigned element; narrower dtypes truncate them.
int64_t unsigned_bits(const Scalar& s) noexcept;

// Run elementwise rows that have no loop for `t`, as their types column says (ORDERED, WIDENED).
// Raise if the types column does not allow unsigned dtypes or `t` is not one.
Tensor unsigned_unary(CtxBase& ctx, kernels::UnaryOp op, const Tensor& x, DType t, Rule rule,
                      const char* name, const void* params);
Tensor unsigned_binary(CtxBase& ctx, kernels::BinaryOp op, const TensorOrScalar& a,
                       const TensorOrScalar& b, DType t, Rule rule, const char* name,
                       const void* params);
Tensor unsigned_ternary(CtxBase& ctx, kernels::TernaryOp op, const Tensor& a,
                        const TensorOrScalar& b, const TensorOrScalar& c, DType t, const char* name,
                        const void* params);

// Maps to signed integers of the same size and order, without autograd; other dtypes are unchanged.
Tensor in_signed_order(const Tensor& x);

}  // namespace cograd
