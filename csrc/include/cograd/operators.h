// SPDX-License-Identifier: BSD-3-Clause
// Operators on tensors and scalars: a + b, -a, a < b, ...
#pragma once
#include "cograd/ops.h"

namespace cograd {
inline namespace abi1 {

inline Tensor Tensor::operator-() const { return neg(); }
inline Tensor& Tensor::operator+=(const TensorOrScalar& o) const { return add_(o); }
inline Tensor& Tensor::operator-=(const TensorOrScalar& o) const { return sub_(o); }
inline Tensor& Tensor::operator*=(const TensorOrScalar& o) const { return mul_(o); }
inline Tensor& Tensor::operator/=(const TensorOrScalar& o) const { return div_(o); }
inline const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> items,
                                        Scalar value) const {
  return index_put_(items, full(Ints(IntArrayRef()), value, TensorOptions(dtype())));
}

#define COGRAD_OPERATOR(op, name)                                                    \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return name(a, b); } \
  inline Tensor operator op(const Tensor& a, const Scalar& b) { return name(a, b); } \
  inline Tensor operator op(const Scalar& a, const Tensor& b) { return name(a, b); }
COGRAD_OPERATOR(<, lt)
COGRAD_OPERATOR(<=, le)
COGRAD_OPERATOR(>, gt)
COGRAD_OPERATOR(>=, ge)
COGRAD_OPERATOR(==, eq)
COGRAD_OPERATOR(!=, ne)
COGRAD_OPERATOR(+, add)
COGRAD_OPERATOR(-, sub)
COGRAD_OPERATOR(*, mul)
COGRAD_OPERATOR(/, div)
COGRAD_OPERATOR(%, remainder)
COGRAD_OPERATOR(&, bitwise_and)
COGRAD_OPERATOR(|, bitwise_or)
COGRAD_OPERATOR(^, bitwise_xor)
#undef COGRAD_OPERATOR
inline Tensor operator~(const Tensor& a) { return bitwise_not(a); }
inline Tensor operator!(const Tensor& a) { return logical_not(a); }

}  // namespace abi1
}  // namespace cograd
