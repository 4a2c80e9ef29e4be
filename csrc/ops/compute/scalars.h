// SPDX-License-Identifier: BSD-3-Clause
// Scalars that become elements: fill values, factors, ends of ranges.
#pragma once
#include "ops/declare/op.h"

namespace cograd {

// Returns element i of a contiguous tensor.
COGRAD_API Scalar element_at(const Tensor& t, int64_t i);

// How finite scalars outside the range of the 16-bit floats are treated.
enum class OutOfRange : uint8_t { Inf, Raises };

// True if dtype t can represent v, at least approximately.
COGRAD_API bool representable(const Scalar& v, DType t, OutOfRange narrow);

// Returns the largest finite value of a floating dtype, or of one part of a complex dtype.
COGRAD_API double largest_finite(DType t) noexcept;
// True if a double represents `v` exactly: it is real and needs no rounding.
inline bool is_double(const Scalar& v) noexcept {
  constexpr int64_t most = int64_t{1} << 53;
  if (v.is_complex() || v.is_large()) return false;
  return v.is_float() || (v.to_int() >= -most && v.to_int() <= most);
}

// Raises RuntimeError "op(): argument v cannot be converted to type t without overflow".
[[noreturn]] COGRAD_API void fail_number(const char* op, std::string_view argument, const Scalar& v,
                                         DType t);

// Calls fail_number if dtype t cannot represent v.
inline void check_number(const char* op, const char* argument, const Scalar& v, DType t,
                         OutOfRange narrow) {
  if (!representable(v, t, narrow)) [[unlikely]]
    fail_number(op, argument, v, t);
}

// Returns a new 0-dim tensor for item assignment; out of a 16-bit float's range it is inf, as in
// torch.
COGRAD_API Tensor assigned_number(const Scalar& v, DType t);
// Returns a new 0-dim tensor of dtype t with the value, which may be a 0-dim tensor. Raises if the
// value is out of t's range.
Tensor fill_value(const char* op, const TensorOrScalar& value, DType t);
// Raises if an element of `values` is out of t's range.
void check_fill_values(const char* op, const Tensor& values, DType t);

}  // namespace cograd
