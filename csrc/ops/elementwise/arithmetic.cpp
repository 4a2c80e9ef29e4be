// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic with options, each dispatching to a row: alpha, rounding modes, exponents, decimals.
#include <cmath>

#include "ops/compute/scalars.h"
#include "ops/elementwise/rows.h"

namespace cograd {

namespace {

void check_alpha(const char* op, DType result, const Scalar& alpha) {
  COGRAD_CHECK(result == DType::Bool || !alpha.is_bool(),
               "Boolean alpha only supported for Boolean results.");
  COGRAD_CHECK(is_complex(result) || !alpha.is_complex(), op,
               "(): For non-complex input tensors, argument alpha must not be a complex number.");
  COGRAD_CHECK(
      is_differentiable(result) || !alpha.is_float(), op,
      "(): For integral input tensors, argument alpha must not be a floating point number.");
}

struct Add {
  static constexpr OpSpec spec{
      "add",
      "input, other, *, alpha=1",
      kForms | kElementwise | kNumbers,
      "input + alpha * other, element-wise with broadcasting and type promotion.",
      "T(3, 4), T(3, 4); T(2, 3, 1), T(4); T(3), 2.5; T(3, 4), T(3, 4), alpha=0.5",
      "input + alpha * other"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(CallForm into, const TensorOrScalar& a, const TensorOrScalar& b,
                        Scalar alpha) {
    if (alpha.equals(1) && !alpha.is_bool()) return into.run<rows::Row_add>(a, b);
    check_alpha("add", result_type(a, b), alpha);
    return into.run<rows::Row_add_scaled>(a, b, alpha);
  }
};
COGRAD_OP(Add)

void check_sub(const TensorOrScalar& a, const TensorOrScalar& b) {
  const auto is_bool = [](const TensorOrScalar& v) {
    return v.is_tensor() ? v.tensor().dtype() == DType::Bool : v.scalar().is_bool();
  };
  const bool both = is_bool(a) && is_bool(b);
  COGRAD_CHECK(!both,
               "Subtraction, the `-` operator, with two bool tensors is not supported. Use the "
               "`^` or `logical_xor()` operator instead.");
  COGRAD_CHECK(!is_bool(a) && !is_bool(b),
               "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
               "trying to invert a mask, use the `~` or `logical_not()` operator instead.");
}

struct Sub {
  static constexpr OpSpec spec{
      "sub",
      "input, other, *, alpha=1",
      kForms | kElementwise | kNumbers,
      "input - alpha * other, element-wise with broadcasting and type promotion.",
      "T(3, 4), T(3, 4); T(2, 3, 1), T(4); T(3), 2.5; T(3, 4), T(3, 4), alpha=0.5",
      "input - alpha * other"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes | kUnsignedTypes;
  static Tensor forward(CallForm into, const TensorOrScalar& a, const TensorOrScalar& b,
                        Scalar alpha) {
    check_sub(a, b);
    if (alpha.equals(1) && !alpha.is_bool()) return into.run<rows::Row_sub>(a, b);
    check_alpha("sub", result_type(a, b), alpha);
    return into.run<rows::Row_sub_scaled>(a, b, alpha);
  }
};
COGRAD_OP(Sub)

struct Rsub {
  static constexpr OpSpec spec{"rsub",
                               "input, other, *, alpha=1",
                               kFunctional | kElementwise,
                               "other - alpha * input, element-wise.",
                               "T(3, 4), T(3, 4); T(3), 2.5",
                               "other - alpha * input"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes | kUnsignedTypes;
  static Tensor forward(CallForm into, const TensorOrScalar& a, const TensorOrScalar& b,
                        Scalar alpha) {
    return Sub::forward(into, b, a, alpha);
  }
};
COGRAD_OP(Rsub)

struct Div {
  static constexpr OpSpec spec{
      "div",
      "input, other, *, rounding_mode=None",
      kForms | kElementwise | kNumbers,
      "input / other, element-wise; rounding_mode None (true division), 'trunc' or 'floor'.",
      "T(3, 4), P(3, 4); T(2, 3, 1), P(4); T(3), 2.5",
      "input / other"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(CallForm into, const TensorOrScalar& a, const TensorOrScalar& b,
                        std::optional<std::string_view> mode) {
    if (!mode) return into.run<rows::Row_div>(a, b);
    COGRAD_CHECK(*mode == "trunc" || *mode == "floor",
                 "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
                 *mode, "'");
    return *mode == "trunc" ? into.run<rows::Row_div_trunc>(a, b)
                            : into.run<rows::Row_div_floor>(a, b);
  }
};
COGRAD_OP(Div)

bool fits(int64_t v, DType integer) {
  const int unused = 64 - 8 * static_cast<int>(dtype_size(integer));
  if (!is_signed(integer)) return v >= 0 && v <= INT64_MAX >> (unused > 0 ? unused - 1 : 0);
  return v << unused >> unused == v;
}

Tensor power(CallForm into, const TensorOrScalar& a, const TensorOrScalar& b) {
  // One to any power is one, also to complex powers that are not finite.
  if (!a.is_tensor() && is_complex(result_type(a, b)) && a.scalar().to_complex() == 1.0)
    return into.run<rows::Row_pow_scalar>(cast(b.tensor(), result_type(a, b)), Scalar(0));
  if (!a.is_tensor() || b.is_tensor()) return into.run<rows::Row_pow_tensor>(a, b);
  const Scalar e = b.scalar();
  const DType type = result_type(a, b);
  if (e.is_complex()) return into.run<rows::Row_pow_tensor>(a, b);
  COGRAD_CHECK(is_differentiable(type) || e.is_float() || e.to_int() >= 0,
               "Integers to negative integer powers are not allowed.");
  // A bool to a bool power: x itself for exponent True, else True.
  if (type == DType::Bool) return into.run<rows::Row_bitwise_or>(a, Scalar(!e.to_bool()));
  if (!is_differentiable(type) && !fits(e.to_int(), type))
    fail_number("pow", "exponent", Scalar(static_cast<long long>(e.to_int())), type);
  if (is_wide_unsigned(type)) return into.run<rows::Row_pow_tensor>(a, b);
  if (type == a.tensor().dtype()) return into.run<rows::Row_pow_scalar>(a.tensor(), e);
  return into.run<rows::Row_pow_scalar>(cast(a.tensor(), type), e);
}

struct Pow {
  static constexpr OpSpec spec{"pow",
                               "input, exponent",
                               kForms | kElementwise,
                               "input ** exponent, element-wise.",
                               "P(3, 4), P(3, 4); T(3), 3; P(3), 0.5; T(4), 2",
                               "input ** exponent"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(CallForm into, const TensorOrScalar& a, const TensorOrScalar& b) {
    return power(into, a, b);
  }
};
COGRAD_OP(Pow)

struct FloatPower {
  static constexpr OpSpec spec{"float_power",
                               "input, exponent",
                               kFunctional | kOut | kElementwise,
                               "input ** exponent computed in float64.",
                               "P(3, 4), P(3, 4); P(3), 2.5",
                               "np.float_power(input, exponent)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const TensorOrScalar& a, const TensorOrScalar& b) {
    return pow(widened(a), widened(b));
  }

 private:
  static rows::Operand widened(const TensorOrScalar& v) {
    if (v.is_tensor())
      return cast(v.tensor(), is_complex(v.tensor().dtype()) ? DType::Complex128 : DType::Float64);
    return v.scalar().is_complex() ? v.scalar() : Scalar(v.scalar().to_double());
  }
};
COGRAD_OP(FloatPower)

struct Ldexp {
  static constexpr OpSpec spec{"ldexp",
                               "input, other",
                               kForms | kElementwise,
                               "input * 2 ** other, element-wise.",
                               "T(3, 4), I(3, 4, hi=5)",
                               "np.ldexp(input, other)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(CallForm into, const Tensor& a, const Tensor& b) {
    const DType t = result_type(TensorOrScalar(a), TensorOrScalar(b));
    const DType scale = is_complex(b.dtype()) ? b.dtype() : real_dtype(t);
    if (is_complex(t))
      return into.run<rows::Row_mul>(TensorOrScalar(a), TensorOrScalar(pow(2.0, cast(b, scale))));
    return into.run<rows::Row_ldexp>(TensorOrScalar(a), TensorOrScalar(b));
  }
};
COGRAD_OP(Ldexp)

struct RoundDecimals {
  static constexpr OpSpec spec{"round",
                               "input, *, decimals",
                               kForms | kElementwise,
                               "Nearest value with the given number of decimals, halves to even.",
                               "T(3, 4), decimals=1; T(3, 4, lo=-90, hi=90), decimals=-1",
                               "np.round(input, decimals)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(CallForm into, const Tensor& x, int64_t decimals) {
    if (decimals == 0) return into.run<rows::Row_round>(x);
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(x.dtype()),
                                 "round(): decimals are not implemented for dtype ",
                                 dtype_name(x.dtype()));
    const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
    return into.run<rows::Row_round_scaled>(x, scale, decimals < 0 ? 1.0 : 0.0);
  }
};
COGRAD_OP(RoundDecimals)

}  // namespace

Tensor pow(const TensorOrScalar& a, const TensorOrScalar& b) {
  if (a.is_tensor() && !b.is_tensor() && b.scalar().equals(1)) return a.tensor();
  return power(CallForm(), a, b);
}

}  // namespace cograd
