// SPDX-License-Identifier: BSD-3-Clause
// Comparisons of whole tensors.
#include "ops/reduce/reduce.h"
#include "tensor/sparse.h"
#include "transforms/batch.h"

namespace cograd {

namespace {

Tensor close_to(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  COGRAD_CHECK(a.dtype() == b.dtype(), scalar_type_name(a.dtype()), " did not match ",
               scalar_type_name(b.dtype()));
  COGRAD_CHECK(rtol >= 0, "rtol must be greater than or equal to zero, but got ", rtol);
  COGRAD_CHECK(atol >= 0, "atol must be greater than or equal to zero, but got ", atol);
  GradGuard no_grad(false);
  Tensor close = eq(a, b);
  if (equal_nan && is_differentiable(a.dtype()))
    close = logical_or(close, logical_and(isnan(a), isnan(b)));
  if (rtol == 0 && atol == 0) return close;
  const DType wide = is_differentiable(a.dtype()) ? a.dtype() : DType::Float64;
  const Tensor x = cast(a, wide), y = cast(b, wide);
  const Tensor error = abs(x - y);
  return logical_or(close, logical_and(isfinite(error), le(error, abs(y) * rtol + atol)));
}

bool all_true(const Tensor& t) {
  check_one_value(t, "a comparison that returns a Python bool");
  check_not_sparse(t, "a comparison that returns a Python bool");
  if (t.numel() == 0) return true;
  check_has_data("a comparison that returns a Python bool");
  const ReducePlan plan(t, all_dims(t.dim()), false);
  return kernels::all_nonzero(t.dtype(), t.bytes(), plan.geometry());
}

struct IsClose {
  static constexpr OpSpec spec{"isclose",
                               "input, other, rtol=1e-05, atol=1e-08, equal_nan=False",
                               kFunctional | kNondiff | kElementwise,
                               "True where |input - other| <= atol + rtol * |other|.",
                               "T(3, 4), T(3, 4); T(3, 1), T(4), 0.5, 0.5",
                               "np.isclose(input, other, rtol, atol, equal_nan)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<IsClose>&, const Tensor& a, const Tensor& b, double rtol, double atol,
                        bool equal_nan) {
    return close_to(a, b, rtol, atol, equal_nan);
  }
};
COGRAD_OP(IsClose)

struct AllClose {
  static constexpr OpSpec spec{"allclose",
                               "input, other, rtol=1e-05, atol=1e-08, equal_nan=False",
                               kFunctional | kNondiff | kReduction,
                               "True if isclose holds for all elements.",
                               "T(3, 4), T(3, 4); T(3, 1), T(4), 0.5, 9.0",
                               ""};
  static constexpr DTypeSet kDTypes = kEveryType;
  static bool forward(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
    return all_true(close_to(a, b, rtol, atol, equal_nan));
  }
};
COGRAD_OP(AllClose)

struct Equal {
  static constexpr OpSpec spec{"equal",
                               "input, other",
                               kFunctional | kNondiff | kReduction,
                               "True if two tensors have the same shape and elements.",
                               "T(3, 4), T(3, 4); I(3, hi=1), I(3, hi=1); T(3), T(4)",
                               ""};
  static constexpr DTypeSet kDTypes = kEveryType;
  static bool forward(const Tensor& a, const Tensor& b) {
    GradGuard no_grad(false);
    return same(a.sizes(), b.sizes()) && all_true(eq(a, b));
  }
};
COGRAD_OP(Equal)

}  // namespace

}  // namespace cograd
