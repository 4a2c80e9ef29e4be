// SPDX-License-Identifier: BSD-3-Clause
// This file defines the functions that formulas call, and all rows but those of rows_slow.cpp.
#include "ops/elementwise/rows.h"

namespace cograd {

namespace rows {

std::string node_name(const Doc& doc, const char* row, bool legacy_scalar_first) {
  if (legacy_scalar_first && doc.number_node != nullptr) return doc.number_node;
  return doc.node != nullptr ? doc.node : camel_backward(row);
}

void check_parameters(const OpSpec& spec, size_t inputs, std::span<const Scalar> params, DType t) {
  t = wide_dtype(t);
  const bool floating = t == DType::Float32 || t == DType::Float64;
  for (size_t i = 0; i < params.size(); ++i) {
    const Scalar& v = params[i];
    const double d = v.to_double();
    if (floating && v.is_float() && std::abs(d) <= 0x1p127) continue;  // in the range of float32
    const bool whole = !v.is_complex() && std::abs(d) < 0x1p53 && d == std::trunc(d);
    const Scalar exact = v.is_float() && whole ? Scalar(static_cast<long>(d)) : v;
    if (!representable(exact, t, OutOfRange::Raises)) [[unlikely]]
      fail_number(spec.name, parameter_name(spec.args, inputs + i), v, t);
  }
}

Tensor no_derivative(const Tensor&, const char* op) {
  detail::fail(ErrorKind::Runtime, "derivative for ", op, " is not implemented");
}

Tensor not_implemented(const Tensor&, const char* op) {
  detail::fail(ErrorKind::NotImplemented, "the derivative for '", op, "' is not implemented.");
}

Tensor Operand::boxed() const {
  if (number_.is_complex()) return wrapped_number(number_, DType::Complex128);
  return wrapped_number(number_, DType::Float64);
}

Operand arithmetic(BinaryOp op, const TensorOrScalar& a, const TensorOrScalar& b) {
  if (a.is_tensor() || b.is_tensor()) {
    if (op == BinaryOp::add) return add(a, b);
    if (op == BinaryOp::sub) return sub(a, b);
    return op == BinaryOp::mul ? mul(a, b) : div(a, b);
  }
  const auto compute = [op](auto x, auto y) -> Scalar {
    if (op == BinaryOp::add) return x + y;
    if (op == BinaryOp::sub) return x - y;
    return op == BinaryOp::mul ? x * y : x / y;
  };
  if (a.scalar().is_complex() || b.scalar().is_complex())
    return compute(a.scalar().to_complex(), b.scalar().to_complex());
  return compute(a.scalar().to_double(), b.scalar().to_double());
}

}  // namespace rows

}  // namespace cograd

#define ROW_CHEAP(...) __VA_ARGS__
#define ROW_DIVIDE(...) __VA_ARGS__
#define ROW_MATH(...) __VA_ARGS__
#define ROW_SLOW(...)
#include "ops/elementwise/rows_define.h"
