// SPDX-License-Identifier: BSD-3-Clause
// Computes on tensors without autograd: casts, copies, and the loops behind elementwise ops.
#pragma once
#include "kernels/core/cast.h"
#include "kernels/elementwise/tables.h"
#include "ops/compute/promote.h"
#include "ops/declare/op.h"

namespace cograd {

// Returns a new tensor of dtype `t` with x's order of dims, or `x` itself if it has that dtype.
Tensor raw_cast(const Tensor& x, DType t);
Tensor raw_contiguous(const Tensor& x);
// Writes src, broadcast and converted, to dst. Shapes must be compatible: there are no checks, and
// the version is not bumped.
void raw_copy(const Tensor& dst, const Tensor& src);
void raw_fill(const Tensor& t, Scalar v);
Tensor raw_full(IntList sizes, DType t, Scalar v);
// Returns the strides, in elements, that broadcast `t` to `sizes`.
Dims broadcast_strides(const Tensor& t, IntList sizes);
// Returns a 0-dim tensor holding a Python scalar; it is weak in type promotion.
Tensor wrapped_number(Scalar s, DType t);
inline Tensor wrapped_number(Scalar s) { return wrapped_number(s, scalar_dtype(s)); }

// A scalar as the bytes of one element of a dtype.
struct ScalarBytes {
  alignas(16) char bytes[16];
  ScalarBytes(Scalar s, DType t);
};

// The short paths run up to so many elements on this thread, without releasing Python's lock.
inline constexpr int64_t kDirectMax = 16384;
// Writes fn over tensors broadcast to out's shape into out, which may have any geometry.
void run_elementwise(kernels::LoopFn fn, const Tensor& out, std::span<const Tensor* const> inputs,
                     const void* params, int cost = 1);

[[noreturn, gnu::cold]] void fail_broadcast(const char* name, IntList a, IntList b);

// The dtype in which an elementwise op computes, and the dtype of its result.
enum class Rule : uint8_t {
  Same,   // the promoted type
  Float,  // the promoted type if it is floating, else the default dtype
  Bool,   // computes in the promoted type, returns bool
  Count,  // the promoted type, with bool replaced by int64
};

Tensor unary_op(CtxBase& ctx, kernels::UnaryOp op, const Tensor& x, Rule rule, const char* name,
                const kernels::ElementParams* params = nullptr);
Tensor binary_op(CtxBase& ctx, kernels::BinaryOp op, const TensorOrScalar& a,
                 const TensorOrScalar& b, Rule rule, const char* name,
                 kernels::ElementParams* params = nullptr);
Tensor ternary_op(CtxBase& ctx, kernels::TernaryOp op, const TensorOrScalar& a,
                  const TensorOrScalar& b, const TensorOrScalar& c, Rule rule, const char* name,
                  const kernels::ElementParams* params = nullptr);
// Returns where(cond, a, b): cond is bool; a and b are promoted together.
Tensor where_op(CtxBase& ctx, const Tensor& cond, const TensorOrScalar& a, const TensorOrScalar& b);

// Returns gx from a fused gradient kernel over g and the saved tensors, which have g's dtype and
// broadcast to its shape. Returns an undefined tensor if the caller must use the formula. If g is
// not used after this (`last`) and nothing else refers to it, gx is written over g.
Tensor fused_backward(kernels::LoopFn fn, const Tensor& g, std::span<const Tensor* const> saved,
                      const void* params, bool last);
// Does the same for gx = g * v or g / v.
Tensor gradient_step(kernels::BinaryOp op, const Tensor& g, const Tensor& v, bool last);

}  // namespace cograd
