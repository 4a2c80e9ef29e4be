// SPDX-License-Identifier: BSD-3-Clause
// A Python-like number: bool, int64 or double, remembering which one it was.
#pragma once
#include <stdint.h>

#include "cograd/dtype.h"

namespace cograd {

class Scalar {
 public:
  enum class Kind : uint8_t { Bool, Int, Float };
  constexpr Scalar() noexcept : kind_(Kind::Int), i_(0) {}
  constexpr Scalar(bool v) noexcept : kind_(Kind::Bool), i_(v) {}      // NOLINT: implicit
  constexpr Scalar(int v) noexcept : kind_(Kind::Int), i_(v) {}        // NOLINT
  constexpr Scalar(long v) noexcept : kind_(Kind::Int), i_(v) {}       // NOLINT
  constexpr Scalar(long long v) noexcept : kind_(Kind::Int), i_(v) {}  // NOLINT
  constexpr Scalar(unsigned v) noexcept : kind_(Kind::Int), i_(v) {}   // NOLINT
  constexpr Scalar(unsigned long v) noexcept
      : kind_(Kind::Int), i_(static_cast<int64_t>(v)) {}              // NOLINT
  Scalar(Half v) noexcept : Scalar(static_cast<float>(v)) {}          // NOLINT
  Scalar(BFloat16 v) noexcept : Scalar(static_cast<float>(v)) {}      // NOLINT
  constexpr Scalar(float v) noexcept : kind_(Kind::Float), d_(v) {}   // NOLINT
  constexpr Scalar(double v) noexcept : kind_(Kind::Float), d_(v) {}  // NOLINT

  constexpr Kind kind() const noexcept { return kind_; }
  constexpr bool is_float() const noexcept { return kind_ == Kind::Float; }
  constexpr bool is_bool() const noexcept { return kind_ == Kind::Bool; }
  constexpr double to_double() const noexcept { return is_float() ? d_ : static_cast<double>(i_); }
  constexpr int64_t to_int() const noexcept { return is_float() ? static_cast<int64_t>(d_) : i_; }
  constexpr bool to_bool() const noexcept { return is_float() ? d_ != 0 : i_ != 0; }
#ifdef COGRAD_TORCH_COMPAT
#include "cograd/torch_compat/impl/scalar_members.inc"
#endif
  constexpr bool equals(double v) const noexcept { return to_double() == v; }
  constexpr Scalar operator-() const noexcept {
    return is_float() ? Scalar(-d_) : Scalar(static_cast<long>(-i_));
  }

 private:
  Kind kind_;
  union {
    int64_t i_;
    double d_;
  };
};

}  // namespace cograd
