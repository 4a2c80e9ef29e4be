// SPDX-License-Identifier: BSD-3-Clause
// Values that fill.
#include "ops/core/fill_value.h"

#include <cmath>

#include "ops/core/options.h"
#include "ops/core/raw.h"

namespace cograd {

namespace {

// Finite and beyond the largest finite number; of a complex number either part.
bool overflows(const Scalar& v, DType t) {
  const double most = t == DType::Float16     ? 65504.0
                      : t == DType::BFloat16  ? 0x1.FEp127
                      : t == DType::Complex64 ? 0x1.FFFFFEp127
                                              : HUGE_VAL;
  const auto beyond = [&](double d) { return std::isfinite(d) && std::abs(d) > most; };
  return beyond(v.to_double()) || (v.is_complex() && beyond(v.imag()));
}

}  // namespace

Scalar only_element(const Tensor& t) {
  return dispatch_values(t.dtype(), [&](auto tag) -> Scalar {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>)  // memory from elsewhere holds any byte there
      return Scalar(*t.bytes() != 0);
    else if constexpr (is_complex_type<T> || std::is_same_v<T, uint64_t>)
      return Scalar(*t.data<T>());
    else if constexpr (std::is_integral_v<T>)
      return Scalar(static_cast<long long>(*t.data<T>()));
    else
      return Scalar(static_cast<double>(*t.data<T>()));
  });
}

Tensor fill_value(const char* op, const TensorOrScalar& value, DType t) {
  if (value.is_tensor())
    COGRAD_CHECK(value.tensor().dim() == 0, op,
                 "_ only supports a 0-dimensional value tensor, but got tensor with ",
                 value.tensor().dim(), " dimension(s).");
  const Scalar v = value.is_tensor() ? only_element(value.tensor()) : value.scalar();
  check_representable(v, t);
  COGRAD_CHECK(!overflows(v, t), op, "(): value cannot be converted to type ", dtype_name(t),
               " without overflow, got ", v.to_double());
  return wrapped_number(v, t);
}

}  // namespace cograd
