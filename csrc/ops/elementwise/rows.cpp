// SPDX-License-Identifier: BSD-3-Clause
// Registers the rows of elementwise.def and defines their C++ functions.
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

namespace {

template <class Row>
bool add_row() {
  if constexpr (Row::kDoc.op == nullptr)
    return add_op<Row>();
  else
    return true;  // the op that runs the row is registered
}

#define ADD_ROW(name, ...) [[maybe_unused]] const bool added_##name = add_row<Row_##name>();
#define UNARY ADD_ROW
#define UNARY_BOOL ADD_ROW
#define BINARY ADD_ROW
#define BINARY_BOOL ADD_ROW
#define BINARY_FLAT ADD_ROW
#include "kernels/elementwise/elementwise.def"
#undef ADD_ROW

// Runs a row with as many of the scalars as it has parameters.
template <class Row, size_t... I, class Numbers, class... In>
Tensor run(std::index_sequence<I...>, [[maybe_unused]] const Numbers& numbers, const In&... in) {
  return apply<Row>(in..., numbers[I]...);
}
template <class Row, class Numbers, class... In>
Tensor call(const Numbers& numbers, const In&... in) {
  return run<Row>(std::make_index_sequence<Row::kParams>(), numbers, in...);
}

}  // namespace

}  // namespace rows

#define UNARY(name, ...)                                                       \
  Tensor name(const Tensor& x, double p0, double p1, double p2) {              \
    return rows::call<rows::Row_##name>(std::array<double, 3>{p0, p1, p2}, x); \
  }
#define UNARY_BOOL(name, ...) \
  Tensor name(const Tensor& x, double, double, double) { return apply<rows::Row_##name>(x); }
#define BINARY(name, ...)                                                    \
  Tensor name(const TensorOrScalar& a, const TensorOrScalar& b, Scalar p0) { \
    return rows::call<rows::Row_##name>(std::array<Scalar, 1>{p0}, a, b);    \
  }
#define BINARY_BOOL BINARY
#define BINARY_FLAT BINARY
#define TERNARY_COND(name, ...)                                                    \
  Tensor name(const Tensor& a, const TensorOrScalar& b, const TensorOrScalar& c) { \
    return apply<rows::Row_##name>(a, b, c);                                       \
  }
#include "kernels/elementwise/elementwise.def"

}  // namespace cograd
