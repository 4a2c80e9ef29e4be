// SPDX-License-Identifier: BSD-3-Clause
// Registers rows of elementwise.def and defines their C++ functions: those for whose cost the
// including file defines ROW_<cost>(...) as its argument. It defines ROW_<cost> of others as empty.
#include "ops/elementwise/rows.h"

namespace cograd {

namespace rows {

namespace {

template <class Row>
bool add_row() {
  if constexpr (Row::kDoc.op == nullptr)
    return add_op<Row>();
  else
    return true;  // the op that runs the row is registered
}

#define ADD_ROW(name) [[maybe_unused]] const bool added_##name = add_row<Row_##name>();
#define UNARY(name, types, cost, ...) ROW_##cost(ADD_ROW(name))
#define UNARY_BOOL(name, ...) ROW_CHEAP(ADD_ROW(name))
#define BINARY(name, types, cost, ...) ROW_##cost(ADD_ROW(name))
#define BINARY_BOOL(name, ...) ROW_CHEAP(ADD_ROW(name))
#define BINARY_FLAT(name, types, cost, ...) ROW_##cost(ADD_ROW(name))
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

#define DEFINE_UNARY(name)                                                     \
  Tensor name(const Tensor& x, double p0, double p1, double p2) {              \
    return rows::call<rows::Row_##name>(std::array<double, 3>{p0, p1, p2}, x); \
  }
#define DEFINE_BINARY(name)                                                  \
  Tensor name(const TensorOrScalar& a, const TensorOrScalar& b, Scalar p0) { \
    return rows::call<rows::Row_##name>(std::array<Scalar, 1>{p0}, a, b);    \
  }
#define UNARY(name, types, cost, ...) ROW_##cost(DEFINE_UNARY(name))
#define UNARY_BOOL(name, ...) \
  ROW_CHEAP(                  \
      Tensor name(const Tensor& x, double, double, double) { return apply<rows::Row_##name>(x); })
#define BINARY(name, types, cost, ...) ROW_##cost(DEFINE_BINARY(name))
#define BINARY_BOOL(name, ...) ROW_CHEAP(DEFINE_BINARY(name))
#define BINARY_FLAT(name, types, cost, ...) ROW_##cost(DEFINE_BINARY(name))
#define TERNARY_COND(name, ...)                                                              \
  ROW_CHEAP(Tensor name(const Tensor& a, const TensorOrScalar& b, const TensorOrScalar& c) { \
    return apply<rows::Row_##name>(a, b, c);                                                 \
  })
#include "kernels/elementwise/elementwise.def"
#undef DEFINE_UNARY
#undef DEFINE_BINARY

}  // namespace cograd
