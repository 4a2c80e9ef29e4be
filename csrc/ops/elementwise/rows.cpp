// SPDX-License-Identifier: BSD-3-Clause
// This file defines the functions that formulas call, and all rows but those of rows_slow.cpp.
#include "ops/elementwise/rows.h"

namespace cograd {

namespace rows {

std::string node_name(const Doc& doc, const char* row, bool legacy_scalar_first) {
  if (legacy_scalar_first && doc.number_node != nullptr) return doc.number_node;
  return doc.node != nullptr ? doc.node : camel_backward(row);
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
