// SPDX-License-Identifier: BSD-3-Clause
// uint16, uint32 and uint64 where no kernel knows them: the work is done on signed integers.
#pragma once
#include "ops/core/raw.h"

namespace cograd {

// The 64 bits of a number as an element of an unsigned dtype, from which narrower ones are cut.
int64_t unsigned_bits(const Scalar& s) noexcept;

// Elementwise rows that have no loop for `t`, by what their types column says (ORDERED, WIDENED).
// Raises where that says nothing of unsigned integers, and where `t` is none.
Tensor unsigned_unary(CtxBase& ctx, kernels::UnaryOp op, const Tensor& x, DType t, Rule rule,
                      const char* name, const void* params);
Tensor unsigned_binary(CtxBase& ctx, kernels::BinaryOp op, const TensorOrScalar& a,
                       const TensorOrScalar& b, DType t, Rule rule, const char* name,
                       const void* params);
Tensor unsigned_ternary(CtxBase& ctx, kernels::TernaryOp op, const Tensor& a,
                        const TensorOrScalar& b, const TensorOrScalar& c, DType t, const char* name,
                        const void* params);

// Signed integers of the same size in the same order, without autograd; others are as they are.
Tensor in_signed_order(const Tensor& x);

}  // namespace cograd
