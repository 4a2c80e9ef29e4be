// SPDX-License-Identifier: BSD-3-Clause
// Numbers that become elements: the value that an op fills places with, alphas and betas.
#pragma once
#include "ops/core/op.h"

namespace cograd {

// The element at place i of a contiguous tensor.
COGRAD_API Scalar element_at(const Tensor& t, int64_t i);

// RuntimeError "op(): argument v cannot be converted to type t without overflow".
[[noreturn]] COGRAD_API void fail_number(const char* op, const char* argument, const Scalar& v,
                                         DType t);

// What becomes of finite numbers beyond the 16-bit floats and complex64.
enum class Beyond : uint8_t { Inf, Raises };

// Raises if dtype t has no number like v, even approximately.
COGRAD_API void check_number(const char* op, const char* argument, const Scalar& v, DType t,
                             Beyond narrow);

// A new 0-dim tensor of dtype t with the value, which may be a tensor of no dims. Raises where the
// value is beyond t's range.
Tensor fill_value(const char* op, const TensorOrScalar& value, DType t);
// The check alone, of all elements of a tensor.
void check_fill_values(const char* op, const Tensor& values, DType t);

}  // namespace cograd
