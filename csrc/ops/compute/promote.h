// SPDX-License-Identifier: BSD-3-Clause
// torch's type promotion: tensors with dims take priority over 0-dim tensors, and these over
// scalars.
#pragma once
#include "ops/declare/value.h"

namespace cograd {

COGRAD_API DType promote_types(DType a, DType b) noexcept;
COGRAD_API bool can_cast(DType from, DType to) noexcept;
inline DType scalar_dtype(const Scalar& s) noexcept {
  if (s.is_float()) return s.is_large() ? DType::UInt64 : default_dtype();
  if (s.is_complex()) return complex_dtype(default_dtype());
  return s.is_bool() ? DType::Bool : DType::Int64;
}

class ResultType {
 public:
  void add(const Tensor& t) noexcept {
    if ((t->flags & kWrappedNumber) != 0)
      number(t.dtype());
    else
      merge(t.dim() > 0 ? 0 : 1, t.dtype());
  }
  void add(const Scalar& s) noexcept { number(scalar_dtype(s)); }
  void add(const TensorOrScalar& v) noexcept {
    if (v.is_tensor())
      add(v.tensor());
    else
      add(v.scalar());
  }
  DType get() const noexcept;

 private:
  void number(DType t) noexcept {
    if (t == DType::UInt64) [[unlikely]]
      large_ = true;
    else
      merge(2, t);
  }
  void merge(int category, DType t) noexcept {
    dtype_[category] = has_[category] ? promote_types(dtype_[category], t) : t;
    has_[category] = true;
  }
  bool has_[3] = {false, false, false};
  bool large_ = false;  // a scalar that only uint64 can represent
  DType dtype_[3] = {DType::Bool, DType::Bool, DType::Bool};
};

inline DType result_type(const TensorOrScalar& a, const TensorOrScalar& b) noexcept {
  ResultType r;
  r.add(a);
  r.add(b);
  return r.get();
}

}  // namespace cograd
