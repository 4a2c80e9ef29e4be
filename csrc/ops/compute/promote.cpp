// SPDX-License-Identifier: BSD-3-Clause
// The type promotion lattice.
#include "ops/compute/promote.h"

namespace cograd {

namespace {

// Promotes `a` with b, which is uint16, uint32 or uint64. The result follows torch for floats, the
// array API standard for integers, and NumPy for uint64 with signed integers.
DType promote_unsigned(DType a, DType b) noexcept {
  if (is_differentiable(a)) return a;
  if (a == DType::Bool || !is_signed(a)) return dtype_size(a) > dtype_size(b) ? a : b;
  if (dtype_size(a) > dtype_size(b)) return a;
  return b == DType::UInt16 ? DType::Int32 : b == DType::UInt32 ? DType::Int64 : DType::Float64;
}

}  // namespace

DType promote_types(DType a, DType b) noexcept {
  if (a == b) return a;
  if (a > b) std::swap(a, b);  // a comes first in the enum
  if (is_wide_unsigned(b)) return promote_unsigned(a, b);
  if (a == DType::Bool) return b;
  if (is_complex(b)) return a == DType::Float64 ? DType::Complex128 : b;
  if (is_floating(b)) {
    if (is_floating(a) && a == DType::Float16 && b == DType::BFloat16) return DType::Float32;
    return b;
  }
  // Both are integer types; only uint8 with int8 needs a third type.
  if (a == DType::UInt8 && b == DType::Int8) return DType::Int16;
  return b;
}

bool can_cast(DType from, DType to) noexcept {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && !is_differentiable(to)) return false;
  return !(from != DType::Bool && to == DType::Bool);
}

namespace {

// Returns the dtype's category in torch's order: bool, integers, floats, complex.
int level(DType t) noexcept {
  return t == DType::Bool ? 0 : is_integral(t) ? 1 : is_floating(t) ? 2 : 3;
}
DType combine(bool has_high, DType high, bool has_low, DType low) noexcept {
  if (!has_high) return low;
  if (!has_low || level(high) >= level(low)) return high;
  if (level(low) == 3 && level(high) == 2) return complex_dtype(high);
  return low;
}

}  // namespace

COGRAD_API DType ResultType::get() const noexcept {  // the bindings use it
  const DType low = combine(has_[1], dtype_[1], has_[2], dtype_[2]);
  const bool any = has_[1] || has_[2];
  const DType t = combine(has_[0], dtype_[0], any, low);
  if (!large_ || t == DType::UInt64) [[likely]]
    return t;
  if (!has_[0] && !any) return DType::UInt64;
  return is_differentiable(t) ? t : default_dtype();  // with other integers the result is a float
}

}  // namespace cograd
