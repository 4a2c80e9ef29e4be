// SPDX-License-Identifier: BSD-3-Clause
// where, lerp, addcmul and addcdiv: they check their arguments and choose a row.
#include "ops/elementwise/rows.h"

namespace cograd {

namespace {

struct Where {
  static constexpr OpSpec spec{"where",
                               "condition, input, other",
                               kFunction | kOut | kElementwise,
                               "input where condition is true, else other; broadcasts.",
                               "B(3, 4), T(3, 4), T(3, 4); B(3, 1), T(4), 1.0",
                               "np.where(condition, input, other)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(CallForm into, const Tensor& cond, const TensorOrScalar& a,
                        const TensorOrScalar& b) {
    return into.run<rows::Row_where>(cond, a, b);
  }
};
COGRAD_OP(Where)

struct WhereMethod {
  static constexpr OpSpec spec{"where",
                               "self, condition, other",
                               kMethod | kElementwise,
                               "self where condition is true, else other; broadcasts.",
                               "T(3, 4), B(3, 4), T(3, 4)",
                               "np.where(condition, self, other)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(CallForm into, const Tensor& self, const Tensor& cond,
                        const TensorOrScalar& other) {
    return into.run<rows::Row_where>(cond, TensorOrScalar(self), other);
  }
};
COGRAD_OP(WhereMethod)

void check_lerp(const Tensor& a, const Tensor& b, DType result) {
  COGRAD_CHECK(a.dtype() == b.dtype(), "expected dtype ", dtype_name(a.dtype()),
               " for `end` but got dtype ", dtype_name(b.dtype()));
  COGRAD_CHECK_NOT_IMPLEMENTED(is_differentiable(result), "lerp(): not implemented for dtype ",
                               dtype_name(result), ", expected a floating one");
}

struct Lerp {
  static constexpr OpSpec spec{"lerp",
                               "input, end, weight",
                               kForms | kElementwise,
                               "input + weight * (end - input), element-wise.",
                               "T(3, 4), T(3, 4), 0.3; T(3, 4), T(4), 0.7; "
                               "T(3, 4), T(3, 4), T(3, 4); T(3, 1), T(4), T(3, 4, lo=0, hi=2)",
                               "input + weight * (end - input)"};
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static Tensor forward(CallForm into, const Tensor& a, const Tensor& b,
                        const TensorOrScalar& weight) {
    // A 0-dim weight is promoted like a scalar; other weights must have the operands' dtype.
    const bool promoted = weight.is_tensor() && weight.tensor().dim() == 0;
    check_lerp(a, b, promoted ? result_type(TensorOrScalar(a), weight) : a.dtype());
    if (!weight.is_tensor())
      return into.run<rows::Row_lerp_scalar>(TensorOrScalar(a), TensorOrScalar(b), weight.scalar());
    const Tensor& w = weight.tensor();
    COGRAD_CHECK(promoted || w.dtype() == a.dtype(), "expected dtype ", dtype_name(a.dtype()),
                 " for `weight` but got dtype ", dtype_name(w.dtype()));
    return into.run<rows::Row_lerp>(TensorOrScalar(a), TensorOrScalar(b), weight);
  }
};
COGRAD_OP(Lerp)

struct Addcmul {
  static constexpr OpSpec spec{"addcmul",
                               "input, tensor1, tensor2, *, value=1",
                               kForms | kElementwise,
                               "input + value * tensor1 * tensor2, element-wise.",
                               "T(3, 4), T(3, 4), T(3, 4); T(3, 4), T(4), T(3, 1), value=0.5",
                               "input + value * tensor1 * tensor2"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  static Tensor forward(CallForm into, const Tensor& x, const Tensor& a, const Tensor& b,
                        Scalar value) {
    return into.run<rows::Row_addcmul>(TensorOrScalar(x), TensorOrScalar(a), TensorOrScalar(b),
                                       value);
  }
};
COGRAD_OP(Addcmul)

struct Addcdiv {
  static constexpr OpSpec spec{"addcdiv",
                               "input, tensor1, tensor2, *, value=1",
                               kForms | kElementwise,
                               "input + value * tensor1 / tensor2, element-wise.",
                               "T(3, 4), T(3, 4), P(3, 4); T(3, 4), T(4), P(3, 1), value=0.5",
                               "input + value * tensor1 / tensor2"};
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static Tensor forward(CallForm into, const Tensor& x, const Tensor& a, const Tensor& b,
                        Scalar value) {
    COGRAD_CHECK(is_differentiable(a.dtype()) || is_differentiable(b.dtype()),
                 "Integer division with addcdiv is no longer supported: got tensor1 of dtype ",
                 dtype_name(a.dtype()), " and tensor2 of dtype ", dtype_name(b.dtype()),
                 ", expected a floating one");
    return into.run<rows::Row_addcdiv>(TensorOrScalar(x), TensorOrScalar(a), TensorOrScalar(b),
                                       value);
  }
};
COGRAD_OP(Addcdiv)

}  // namespace

}  // namespace cograd
