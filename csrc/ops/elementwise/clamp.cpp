// SPDX-License-Identifier: BSD-3-Clause
// Defines clamp, clamp_min, clamp_max, hardtanh, threshold and nan_to_num. Each checks its bounds
// and runs a row of elementwise.def.
#include "ops/elementwise/rows.h"

namespace cograd {

namespace {

using Bound = std::optional<TensorOrScalar>;

// Casts x to the dtype to which the scalar bounds promote it.
Tensor promoted(const Tensor& x, const Bound& lo, const Bound& hi) {
  if (is_floating(x.dtype())) return x;
  ResultType type;
  type.add(x);
  if (lo) type.add(*lo);
  if (hi) type.add(*hi);
  return cast(x, type.get());
}

// Wraps a scalar bound in a tensor of dtype `t`, a wide unsigned one: rows with scalar parameters
// have no loops for those.
Tensor bound_of(const char* op, const char* argument, const TensorOrScalar& v, DType t) {
  if (v.is_tensor()) return v.tensor();
  check_number(op, argument, v.scalar(), t, OutOfRange::Raises);
  return wrapped_number(v.scalar(), t);
}

// Raises if a scalar bound is out of range for the 16-bit dtype `t`: its loops compute in float32,
// which would not notice.
void check_half(const char* op, const char* argument, const Scalar& v, DType t) {
  if (is_half(t)) check_number(op, argument, v, t, OutOfRange::Raises);
}

Tensor clamp_to(CallForm into, const Tensor& x, const TensorOrScalar& lo,
                const TensorOrScalar& hi) {
  if (lo.is_tensor() || hi.is_tensor()) return into.run<rows::Row_clamp_tensors>(x, lo, hi);
  check_half("clamp", "min", lo.scalar(), x.dtype());
  check_half("clamp", "max", hi.scalar(), x.dtype());
  const Tensor in = promoted(x, lo, hi);
  if (is_wide_unsigned(in.dtype()))
    return into.run<rows::Row_clamp_tensors>(in, bound_of("clamp", "min", lo, in.dtype()),
                                             bound_of("clamp", "max", hi, in.dtype()));
  return into.run<rows::Row_clamp>(in, lo.scalar(), hi.scalar());
}

template <class Numbers, class Tensors>
Tensor clamp_one(CallForm into, const char* op, const char* argument, const Tensor& x,
                 const TensorOrScalar& bound) {
  if (bound.is_tensor()) return into.run<Tensors>(x, bound);
  check_half(op, argument, bound.scalar(), x.dtype());
  const Tensor in = promoted(x, bound, {});
  if (is_wide_unsigned(in.dtype()))
    return into.run<Tensors>(in, bound_of(op, argument, bound, in.dtype()));
  return into.run<Numbers>(in, bound.scalar());
}

Tensor raise_to(CallForm into, const Tensor& x, const TensorOrScalar& lo) {
  return clamp_one<rows::Row_clamp_min, rows::Row_clamp_min_tensor>(into, "clamp_min", "min", x,
                                                                    lo);
}

Tensor lower_to(CallForm into, const Tensor& x, const TensorOrScalar& hi) {
  return clamp_one<rows::Row_clamp_max, rows::Row_clamp_max_tensor>(into, "clamp_max", "max", x,
                                                                    hi);
}

struct Clamp {
  static constexpr OpSpec spec{"clamp",
                               "input, min=None, max=None",
                               kForms | kElementwise,
                               "The input limited to [min, max]; a bound may be None, a number or "
                               "a tensor.",
                               "T(3, 4), -0.5, 0.5; T(3, 4), 0.1; T(3, 4), max=0.2; "
                               "T(3, 4), T(4), T(3, 1); T(3, 4), None, T(3, 4)",
                               "np.clip(input, min, max)"};
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static Tensor forward(CallForm into, const Tensor& x, Bound lo, Bound hi) {
    COGRAD_CHECK(lo || hi, "torch.clamp: At least one of 'min' or 'max' must not be None");
    if (!hi) return raise_to(into, x, *lo);
    return lo ? clamp_to(into, x, *lo, *hi) : lower_to(into, x, *hi);
  }
};
COGRAD_OP(Clamp)

struct ClampMin {
  static constexpr OpSpec spec{"clamp_min",
                               "input, min",
                               kForms | kElementwise,
                               "The input, but not less than min.",
                               "T(3, 4), 0.1; T(3, 4), T(4)",
                               "np.maximum(input, min)"};
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static Tensor forward(CallForm into, const Tensor& x, const TensorOrScalar& lo) {
    return raise_to(into, x, lo);
  }
};
COGRAD_OP(ClampMin)

struct ClampMax {
  static constexpr OpSpec spec{"clamp_max",
                               "input, max",
                               kForms | kElementwise,
                               "The input, but not more than max.",
                               "T(3, 4), 0.1; T(3, 4), T(4)",
                               "np.minimum(input, max)"};
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static Tensor forward(CallForm into, const Tensor& x, const TensorOrScalar& hi) {
    return lower_to(into, x, hi);
  }
};
COGRAD_OP(ClampMax)

// The bounds of these two stay scalars until the row runs: a double cannot represent every int64.
struct Hardtanh {
  static constexpr OpSpec spec{"hardtanh",
                               "input, min_val=-1.0, max_val=1.0",
                               kForms | kElementwise,
                               "The input limited to [min_val, max_val].",
                               "T(3, 4, lo=-3, hi=3); T(3, 4, lo=-3, hi=3), -2, 0.5",
                               "np.clip(input, min_val, max_val)"};
  static constexpr DTypeSet kDTypes = kNumericTypes;
  static Tensor forward(CallForm into, const Tensor& x, Scalar lo, Scalar hi) {
    check_half("hardtanh", "min_val", lo, x.dtype());
    check_half("hardtanh", "max_val", hi, x.dtype());
    return into.run<rows::Row_hardtanh>(x, lo, hi);
  }
};
COGRAD_OP(Hardtanh)

struct Threshold {
  static constexpr OpSpec spec{"threshold",
                               "input, threshold, value",
                               kForms | kElementwise,
                               "The input where above the threshold, else value.",
                               "T(3, 4, lo=-3, hi=3), 0.5, -1",
                               "np.where(input <= threshold, value, input)"};
  static constexpr DTypeSet kDTypes = kNumericTypes;
  static Tensor forward(CallForm into, const Tensor& x, Scalar limit, Scalar value) {
    check_half("threshold", "value", value, x.dtype());
    return into.run<rows::Row_threshold>(x, limit, value);
  }
};
COGRAD_OP(Threshold)

struct NanToNum {
  static constexpr OpSpec spec{
      "nan_to_num",
      "input, nan=None, posinf=None, neginf=None",
      kForms | kElementwise,
      "The input with NaN, inf and -inf replaced by nan, posinf and neginf, which default to 0 and "
      "the largest and lowest finite number of the dtype; each part of a complex number by itself.",
      "T(3, 4); T(3), 1.0, 2.0, 3.0",
      "np.nan_to_num(input)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(CallForm into, const Tensor& x, std::optional<double> nan,
                        std::optional<double> posinf, std::optional<double> neginf) {
    if (!is_differentiable(x.dtype()))  // nothing to replace
      return into.run<rows::Row_bitwise_or>(TensorOrScalar(x), TensorOrScalar(Scalar(false)));
    const double top = largest_finite(x.dtype());
    return into.run<rows::Row_nan_to_num>(x, nan.value_or(0), posinf.value_or(top),
                                          neginf.value_or(-top));
  }
};
COGRAD_OP(NanToNum)

}  // namespace

}  // namespace cograd
