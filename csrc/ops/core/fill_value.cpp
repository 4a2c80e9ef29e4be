// SPDX-License-Identifier: BSD-3-Clause
// Numbers that become elements.
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

[[gnu::cold]] void fail_number(const char* op, const char* argument, const Scalar& v, DType t) {
  const std::string head = std::string(op) + "(): " + argument + " ";
  const std::string tail =
      std::string(" cannot be converted to type ") + dtype_name(t) + " without overflow";
  if (v.is_complex())
    detail::fail(ErrorKind::Runtime, head, "(", v.to_double(), ", ", v.imag(), ")", tail);
  if (v.is_large()) detail::fail(ErrorKind::Runtime, head, static_cast<uint64_t>(v.to_int()), tail);
  if (v.is_float()) detail::fail(ErrorKind::Runtime, head, v.to_double(), tail);
  detail::fail(ErrorKind::Runtime, head, v.to_int(), tail);
}

Scalar element_at(const Tensor& t, int64_t i) {
  return dispatch_values(t.dtype(), [&](auto tag) -> Scalar {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>)  // memory from elsewhere holds any byte there
      return Scalar(t.bytes()[i] != 0);
    else if constexpr (is_complex_type<T> || std::is_same_v<T, uint64_t>)
      return Scalar(t.data<T>()[i]);
    else if constexpr (std::is_integral_v<T>)
      return Scalar(static_cast<long long>(t.data<T>()[i]));
    else
      return Scalar(static_cast<double>(t.data<T>()[i]));
  });
}

void check_number(const char* op, const char* argument, const Scalar& v, DType t, Beyond narrow) {
  if (!representable(v, t) || (narrow == Beyond::Raises && overflows(v, t))) [[unlikely]]
    fail_number(op, argument, v, t);
}

Tensor fill_value(const char* op, const TensorOrScalar& value, DType t) {
  if (!value.is_tensor()) {
    check_number(op, "value", value.scalar(), t, Beyond::Raises);
    return wrapped_number(value.scalar(), t);
  }
  const Tensor& v = value.tensor();
  COGRAD_CHECK(v.dim() == 0, op,
               "_ only supports a 0-dimensional value tensor, but got tensor with ", v.dim(),
               " dimension(s).");
  if (v.dtype() != t) check_number(op, "value", element_at(v, 0), t, Beyond::Raises);
  Tensor out = empty({}, t);
  raw_copy(out, v);
  return out;
}

void check_fill_values(const char* op, const Tensor& values, DType t) {
  if (values.dtype() == t) return;
  const Tensor v = raw_contiguous(values);
  for (int64_t i = 0; i < v.numel(); ++i)
    check_number(op, "value", element_at(v, i), t, Beyond::Raises);
}

}  // namespace cograd
