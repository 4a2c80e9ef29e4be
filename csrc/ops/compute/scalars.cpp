// SPDX-License-Identifier: BSD-3-Clause
// Converts scalars to elements and checks their range.
#include "ops/compute/scalars.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "ops/compute/elementwise.h"
#include "ops/compute/host_values.h"

namespace cograd {

namespace {

bool within(double v, DType t) { return !std::isfinite(v) || std::abs(v) <= largest_finite(t); }

bool has_whole(const Scalar& v, DType t) {
  // These always fit. Do not compare them as doubles, which cannot represent all integers.
  if (t == DType::Int64 && !v.is_float()) return true;
  if (t == DType::UInt64 && (!v.is_float() || v.is_large())) return true;
  const double d = v.to_double();
  // Unsigned dtypes accept negative scalars of the same magnitude, as in torch.
  const double end = std::ldexp(1.0, 8 * dtype_size(t) - (is_signed(t) ? 1 : 0));
  // Compare floats exactly where a double can represent the largest value.
  const double most = end - 1;
  if (v.is_float()) return (most < end ? d <= most : d < end) && d >= (is_signed(t) ? -end : 0);
  const double whole = std::trunc(d);
  return whole < end && (is_signed(t) ? whole >= -end : whole > -end);
}

// Formats a float as Python does: 1.0, not 1.
std::string shown(double v) {
  char text[32];
  char* end = std::to_chars(text, text + sizeof text, v).ptr;
  std::string s(text, end);
  return s.find_first_of(".ein") == std::string::npos ? s + ".0" : s;
}

}  // namespace

double largest_finite(DType t) noexcept {
  switch (t) {
    case DType::Float16:
      return 65504.0;
    case DType::BFloat16:
      return 0x1.FEp127;
    case DType::Float32:
    case DType::Complex64:
      return 0x1.FFFFFEp127;
    default:
      return std::numeric_limits<double>::max();
  }
}

bool representable(const Scalar& v, DType t, OutOfRange narrow) {
  if (t == DType::Bool) return true;
  if (v.is_complex() && !is_complex(t) && v.imag() != 0) return false;
  if (is_integral(t)) return has_whole(v.is_complex() ? Scalar(v.to_double()) : v, t);
  if (is_half(t) && narrow == OutOfRange::Inf) return true;
  return within(v.to_double(), t) && (!v.is_complex() || within(v.imag(), t));
}

[[gnu::cold]] void fail_number(const char* op, std::string_view argument, const Scalar& v,
                               DType t) {
  const std::string head = std::string(op) + "(): " + std::string(argument) + " ";
  const std::string tail =
      std::string(" cannot be converted to type ") + dtype_name(t) + " without overflow";
  if (v.is_complex())
    detail::fail(ErrorKind::Runtime, head, "(", v.to_double(), ", ", v.imag(), ")", tail);
  if (v.is_large()) detail::fail(ErrorKind::Runtime, head, static_cast<uint64_t>(v.to_int()), tail);
  if (v.is_float()) detail::fail(ErrorKind::Runtime, head, shown(v.to_double()), tail);
  detail::fail(ErrorKind::Runtime, head, v.to_int(), tail);
}

Scalar element_at(const Tensor& t, int64_t i) {
  return dispatch_values(t.dtype(), [&](auto tag) -> Scalar {
    using T = typename decltype(tag)::type;
    const T v = host_value<T>(t, i);
    if constexpr (std::is_same_v<T, bool> || is_complex_type<T> || std::is_same_v<T, uint64_t>)
      return Scalar(v);
    else if constexpr (std::is_integral_v<T>)
      return Scalar(static_cast<long long>(v));
    else
      return Scalar(static_cast<double>(v));
  });
}

Tensor assigned_number(const Scalar& v, DType t) {
  check_number("__setitem__", "value", v, t, OutOfRange::Inf);
  return raw_full({}, t, v);
}

Tensor fill_value(const char* op, const TensorOrScalar& value, DType t) {
  if (!value.is_tensor()) {
    check_number(op, "value", value.scalar(), t, OutOfRange::Raises);
    return wrapped_number(value.scalar(), t);
  }
  const Tensor& v = value.tensor();
  COGRAD_CHECK(v.dim() == 0, op,
               "_ only supports a 0-dimensional value tensor, but got tensor with ", v.dim(),
               " dimension(s).");
  if (v.dtype() != t) check_number(op, "value", element_at(v, 0), t, OutOfRange::Raises);
  Tensor out = empty({}, t);
  raw_copy(out, v);
  return out;
}

void check_fill_values(const char* op, const Tensor& values, DType t) {
  if (values.dtype() == t) return;
  const Tensor v = raw_contiguous(values);
  for (int64_t i = 0; i < v.numel(); ++i)
    check_number(op, "value", element_at(v, i), t, OutOfRange::Raises);
}

}  // namespace cograd
