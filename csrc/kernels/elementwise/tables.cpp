// SPDX-License-Identifier: BSD-3-Clause
// Looks up the loops of the elementwise table for the chosen instruction set.
#include "kernels/elementwise/tables.h"

#include "kernels/core/isa.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(LoopTable, unary_forward)
COGRAD_ISA_VALUE(LoopTable, unary_backward)
COGRAD_ISA_VALUE(LoopTable, binary_forward)
COGRAD_ISA_VALUE(LoopTable, binary_backward_a)
COGRAD_ISA_VALUE(LoopTable, binary_backward_b)
COGRAD_ISA_VALUE(LoopTable, ternary_forward)

namespace {

// Costs relative to one cheap element-operation.
constexpr int CHEAP = 1, DIVIDE = 4, MATH = 8, SLOW = 40;

constexpr int kUnaryCost[] = {
#define UNARY(name, types, cost, ...) cost,
#define UNARY_BOOL(name, ...) CHEAP,
#include "kernels/elementwise/elementwise.def"
};
constexpr int kBinaryCost[] = {
#define BINARY(name, types, cost, ...) cost,
#define BINARY_FLAT(name, types, cost, ...) cost,
#define BINARY_BOOL(name, ...) CHEAP,
#include "kernels/elementwise/elementwise.def"
};
constexpr int kTernaryCost[] = {
#define TERNARY(name, types, cost, ...) cost,
#define TERNARY_COND(name, ...) CHEAP,
#include "kernels/elementwise/elementwise.def"
};

using namespace types;
constexpr unsigned kUnaryTypes[] = {
#define UNARY(name, types, ...) types,
#define UNARY_BOOL(name, types, ...) types,
#include "kernels/elementwise/elementwise.def"
};
constexpr unsigned kBinaryTypes[] = {
#define BINARY(name, types, ...) types,
#define BINARY_FLAT(name, types, ...) types,
#define BINARY_BOOL(name, types, ...) types,
#include "kernels/elementwise/elementwise.def"
};
constexpr unsigned kTernaryTypes[] = {
#define TERNARY(name, types, ...) types,
#define TERNARY_COND(name, types, ...) types,
#include "kernels/elementwise/elementwise.def"
};

}  // namespace

LoopFn ElementRow::unary(int index, DType t) noexcept {
  return unary_forward()[index][static_cast<int>(t)];
}
LoopFn ElementRow::binary(int index, DType t) noexcept {
  return binary_forward()[index][static_cast<int>(t)];
}
LoopFn ElementRow::ternary(int index, DType t) noexcept {
  return ternary_forward()[index][static_cast<int>(t)];
}
int ElementRow::cost() const noexcept {
  const int* of_rows = operands_ == 1 ? kUnaryCost : operands_ == 2 ? kBinaryCost : kTernaryCost;
  return of_rows[index_];
}
unsigned ElementRow::types() const noexcept {
  const unsigned* of_rows = operands_ == 1   ? kUnaryTypes
                            : operands_ == 2 ? kBinaryTypes
                                             : kTernaryTypes;
  return of_rows[index_];
}

LoopFn unary_backward_loop(UnaryOp op, DType t) noexcept {
  return unary_backward()[static_cast<int>(op)][static_cast<int>(t)];
}
LoopFn binary_backward_loop(BinaryOp op, int which, DType t) noexcept {
  const LoopTable table = which == 0 ? binary_backward_a() : binary_backward_b();
  return table[static_cast<int>(op)][static_cast<int>(t)];
}

}  // namespace cograd::kernels
