// SPDX-License-Identifier: BSD-3-Clause
// Numbers that become elements: what an op fills places with, factors, ends of ranges.
#pragma once
#include "ops/core/op.h"

namespace cograd {

// The element at place i of a contiguous tensor.
COGRAD_API Scalar element_at(const Tensor& t, int64_t i);

// What becomes of finite numbers beyond the 16-bit floats.
enum class Beyond : uint8_t { Inf, Raises };

// Whether dtype t has a number like v, even approximately.
COGRAD_API bool representable(const Scalar& v, DType t, Beyond narrow);

// The largest finite number of a floating or complex dtype, of one part of it.
COGRAD_API double largest_finite(DType t) noexcept;
// Whether a double is the number: real, and not rounded.
inline bool is_double(const Scalar& v) noexcept {
  constexpr int64_t most = int64_t{1} << 53;
  if (v.is_complex() || v.is_large()) return false;
  return v.is_float() || (v.to_int() >= -most && v.to_int() <= most);
}

// RuntimeError "op(): argument v cannot be converted to type t without overflow".
[[noreturn]] COGRAD_API void fail_number(const char* op, std::string_view argument, const Scalar& v,
                                         DType t);

// Raises it where dtype t has no number like v.
inline void check_number(const char* op, const char* argument, const Scalar& v, DType t,
                         Beyond narrow) {
  if (!representable(v, t, narrow)) [[unlikely]]
    fail_number(op, argument, v, t);
}

// A new 0-dim tensor of the number that items are set to: inf beyond a 16-bit float, as in torch.
COGRAD_API Tensor assigned_number(const Scalar& v, DType t);
// A new 0-dim tensor of dtype t with the value, which may be a tensor of no dims. Raises where the
// value is beyond t's range.
Tensor fill_value(const char* op, const TensorOrScalar& value, DType t);
// The check alone, of all elements of a tensor.
void check_fill_values(const char* op, const Tensor& values, DType t);

}  // namespace cograd
