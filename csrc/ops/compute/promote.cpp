// SPDX-License-Identifier: BSD-3-Clause
// The type promotion lattice.
#include "ops/compute/promote.h"

namespace cograd {

namespace {

// Promotes integers or bools. The result follows the array API standard, and NumPy for uint64 with
// signed integers.
constexpr DType promote_integers(DType a, DType b) noexcept {
  if (a == DType::Bool) return b;
  if (b == DType::Bool) return a;
  const DType larger = dtype_size(a) > dtype_size(b) ? a : b;
  if (is_signed(a) == is_signed(b) || (is_signed(larger) && dtype_size(a) != dtype_size(b)))
    return larger;
  switch (dtype_size(is_signed(a) ? b : a)) {  // a signed dtype wider than the unsigned one
    case 1:
      return DType::Int16;
    case 2:
      return DType::Int32;
    case 4:
      return DType::Int64;
    default:
      return DType::Float64;
  }
}

constexpr DType promote(DType a, DType b) noexcept {
  if (a == b) return a;
  if (!is_differentiable(a) && !is_differentiable(b)) return promote_integers(a, b);
  if (!is_differentiable(a)) return b;
  if (!is_differentiable(b)) return a;
  const bool complex = is_complex(a) || is_complex(b);
  const DType x = real_dtype(a), y = real_dtype(b);
  if (dtype_size(x) != dtype_size(y)) {
    const DType larger = dtype_size(x) > dtype_size(y) ? x : y;
    return complex ? complex_dtype(larger) : larger;
  }
  if (complex) return complex_dtype(x);
  return wide_dtype(x);  // float16 with bfloat16
}

struct Promotions {
  DType of[kNumDTypes][kNumDTypes] = {};
  constexpr Promotions() noexcept {
    for (int a = 0; a < kNumDTypes; ++a)
      for (int b = 0; b < kNumDTypes; ++b)
        of[a][b] = promote(static_cast<DType>(a), static_cast<DType>(b));
  }
};
constexpr Promotions kPromotions;

}  // namespace

DType promote_types(DType a, DType b) noexcept {
  return kPromotions.of[static_cast<int>(a)][static_cast<int>(b)];
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
