// SPDX-License-Identifier: BSD-3-Clause
// Computation on tensors without autograd: casts, copies, and the loops behind elementwise ops.
#pragma once
#include "kernels/cast.h"
#include "ops/core/op.h"
#include "ops/core/promote.h"
#include "ops/elementwise/tables.h"

namespace cograd {

// A new tensor of dtype `t` with x's order of dims; `x` itself when it has that dtype.
Tensor raw_cast(const Tensor& x, DType t);
Tensor raw_contiguous(const Tensor& x);
// dst = src, broadcast and converted; shapes must be compatible. No checks, no version bump.
void raw_copy(const Tensor& dst, const Tensor& src);
void raw_fill(const Tensor& t, Scalar v);
Tensor raw_full(IntList sizes, DType t, Scalar v);
// Strides that broadcast `t` to `sizes`, in elements.
Dims broadcast_strides(const Tensor& t, IntList sizes);
// 0-dim tensor holding a Python number, weak in type promotion.
Tensor wrapped_number(Scalar s, DType t);
inline Tensor wrapped_number(Scalar s) { return wrapped_number(s, scalar_dtype(s)); }

// A number in the representation of one dtype.
struct ScalarBytes {
  alignas(16) char bytes[16];
  ScalarBytes(Scalar s, DType t);
};

// out (any geometry) = fn over tensors broadcast to out's shape.
void run_elementwise(kernels::LoopFn fn, const Tensor& out, std::span<const Tensor* const> inputs,
                     const void* params, int cost = 1);

[[noreturn, gnu::cold]] void fail_broadcast(const char* name, IntList a, IntList b);

// What dtype an elementwise op computes in, and what it returns.
enum class Rule : uint8_t {
  Same,   // the promoted type
  Float,  // the promoted type if floating, else the default dtype
  Bool,   // computed in the promoted type, result bool
  Count,  // the promoted type, where a bool counts as an int64
};

Tensor unary_op(CtxBase& ctx, kernels::UnaryOp op, const Tensor& x, Rule rule, const char* name,
                const kernels::ElementParams* params = nullptr);
Tensor binary_op(CtxBase& ctx, kernels::BinaryOp op, const TensorOrScalar& a,
                 const TensorOrScalar& b, Rule rule, const char* name,
                 kernels::ElementParams* params = nullptr);
Tensor ternary_op(CtxBase& ctx, kernels::TernaryOp op, const TensorOrScalar& a,
                  const TensorOrScalar& b, const TensorOrScalar& c, Rule rule, const char* name,
                  const kernels::ElementParams* params = nullptr);
// where(cond, a, b): cond is bool, a and b are promoted together.
Tensor where_op(CtxBase& ctx, const Tensor& cond, const TensorOrScalar& a, const TensorOrScalar& b);

// gx = fused gradient kernel over g and the saved tensors (of g's shape and dtype, or numbers in
// 0-dim tensors), or an undefined tensor if the kernel does not apply and the formula must be used.
Tensor fused_backward(kernels::LoopFn fn, const Tensor& g, std::span<const Tensor* const> saved,
                      const void* params);

}  // namespace cograd
