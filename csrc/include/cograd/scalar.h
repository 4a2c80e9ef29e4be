// SPDX-License-Identifier: BSD-3-Clause
// A Python-like number: bool, int64, double or complex, with its kind.
#pragma once
#include <stdint.h>

#include "cograd/dtype.h"

namespace cograd {

// Two words: a number, and its imaginary part or, for other kinds, a tag. The tags are bit patterns
// of NaNs that arithmetic never produces.
class Scalar {
 public:
  enum class Kind : uint8_t { Bool, Int, Float, Complex };
  constexpr Scalar() noexcept : tag_(kInt), i_(0) {}
  constexpr Scalar(bool v) noexcept : tag_(kBool), i_(v) {}      // NOLINT: implicit
  constexpr Scalar(int v) noexcept : tag_(kInt), i_(v) {}        // NOLINT
  constexpr Scalar(long v) noexcept : tag_(kInt), i_(v) {}       // NOLINT
  constexpr Scalar(long long v) noexcept : tag_(kInt), i_(v) {}  // NOLINT
  constexpr Scalar(unsigned v) noexcept : tag_(kInt), i_(v) {}   // NOLINT
  constexpr Scalar(unsigned long v) noexcept                     // NOLINT
      : tag_(v >> 63 != 0 ? kLarge : kInt), i_(static_cast<int64_t>(v)) {}
  Scalar(Half v) noexcept : Scalar(static_cast<float>(v)) {}      // NOLINT
  Scalar(BFloat16 v) noexcept : Scalar(static_cast<float>(v)) {}  // NOLINT
  constexpr Scalar(float v) noexcept : tag_(kFloat), d_(v) {}     // NOLINT
  constexpr Scalar(double v) noexcept : tag_(kFloat), d_(v) {}    // NOLINT
  template <class T>
  constexpr Scalar(Complex<T> v) noexcept  // NOLINT
      : tag_(v.im == v.im ? __builtin_bit_cast(uint64_t, static_cast<double>(v.im)) : kNan),
        d_(static_cast<double>(v.re)) {}

  constexpr Kind kind() const noexcept {
    return is_float()      ? Kind::Float
           : tag_ == kInt  ? Kind::Int
           : tag_ == kBool ? Kind::Bool
                           : Kind::Complex;
  }
  constexpr bool is_float() const noexcept { return (tag_ | 1) == kFloat; }
  constexpr bool is_bool() const noexcept { return tag_ == kBool; }
  // True for an integer from 2^63 to 2^64 - 1. It counts as a float, but to_int() returns its exact
  // bits, for uint64.
  constexpr bool is_large() const noexcept { return tag_ == kLarge; }
  constexpr bool is_complex() const noexcept { return (tag_ & kTags) != kTags; }
  // Returns the value as a double; for a complex number the real part.
  constexpr double to_double() const noexcept {
    if (is_large()) return static_cast<double>(static_cast<uint64_t>(i_));
    return is_whole() ? static_cast<double>(i_) : d_;
  }
  constexpr int64_t to_int() const noexcept {
    return is_whole() || is_large() ? i_ : static_cast<int64_t>(d_);
  }
  constexpr bool to_bool() const noexcept {
    if (is_whole() || is_large()) return i_ != 0;
    return d_ != 0 || (is_complex() && imag() != 0);
  }
  constexpr double imag() const noexcept {
    return is_complex() ? __builtin_bit_cast(double, tag_) : 0.0;
  }
  constexpr Complex<double> to_complex() const noexcept { return {to_double(), imag()}; }
#ifdef COGRAD_TORCH_COMPAT
#include "cograd/torch_compat/impl/scalar_members.inc"
#endif
  constexpr bool equals(double v) const noexcept { return to_double() == v && imag() == 0; }
  constexpr Scalar operator-() const noexcept {
    if (is_complex()) return Scalar(-to_complex());
    return is_float() ? Scalar(-to_double())
                      : Scalar(static_cast<long>(-static_cast<uint64_t>(i_)));
  }

 private:
  static constexpr uint64_t kNan = 0x7ff8000000000000, kTags = 0xfff8c06ad0000000, kLarge = kTags,
                            kFloat = kTags | 1, kInt = kTags | 2, kBool = kTags | 3;
  constexpr bool is_whole() const noexcept { return tag_ == kInt || tag_ == kBool; }
  uint64_t tag_;
  union {
    int64_t i_;
    double d_;
  };
};

}  // namespace cograd
