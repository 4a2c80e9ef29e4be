// SPDX-License-Identifier: BSD-3-Clause
// The loops of the elementwise table: one enumerator per row, one lookup per arity.
#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "cograd/dtype.h"
#include "kernels/core/loops.h"

namespace cograd::kernels {

// Scalar parameters p0..p2 of a row, stored as double and as int64 so that int64 stays exact. Pass
// a pointer to it as `params` of any row with parameters, and of integer division.
struct ElementParams {
  double d[3] = {0, 0, 0};
  double imag[3] = {0, 0, 0};
  int64_t i[3] = {0, 0, 0};
  // Set to 1 if an integer was divided by zero (loops never trap); may be null.
  int* division_by_zero = nullptr;
  // For 16-bit floats: the operand (the result is 0) that is a scalar and stays a float.
  int number_at = 0;
  float number = 0;

  template <class T>
    requires std::is_arithmetic_v<T>
  ElementParams& set(int k, T value) noexcept {
    d[k] = static_cast<double>(value);
    if constexpr (std::is_floating_point_v<T>) {
      const bool fits = value >= T(-9223372036854775808.0) && value < T(9223372036854775808.0);
      i[k] = fits ? static_cast<int64_t>(value) : value > 0 ? INT64_MAX : INT64_MIN;
    } else {
      i[k] = static_cast<int64_t>(value);
    }
    return *this;
  }
};

// Values of the `types` column: one bit per dtype.
namespace types {
constexpr unsigned bit(DType t) { return dtype_bit(t); }
constexpr unsigned FLOATS = kFloatingDTypes;
constexpr unsigned WIDE = FLOATS & ~kHalfDTypes;
constexpr unsigned INTEGER = kIntegralDTypes & ~kWideUnsignedDTypes;
constexpr unsigned BITS = INTEGER | bit(DType::Bool);
constexpr unsigned NUMERIC = INTEGER | FLOATS;
constexpr unsigned ALL = BITS | FLOATS;
constexpr unsigned COMPLEX = kComplexDTypes;
constexpr unsigned COUNTED = NUMERIC | 1u << 31;  // no dtype has this bit
// uint16, uint32 and uint64 use the loops of signed integers: unchanged (UNSIGNED), with the
// highest bit of inputs and result flipped (ORDERED), or on wider integers (WIDENED; uint64 has its
// own loop).
constexpr unsigned UNSIGNED = kWideUnsignedDTypes;
constexpr unsigned ORDERED = 1u << 30;
constexpr unsigned WIDENED = bit(DType::UInt64) | 1u << 29;
constexpr unsigned MARKS = 1u << 31 | 1u << 30 | 1u << 29;
}  // namespace types

// Counts the names in a row's args column.
constexpr int count_args(std::string_view args) {
  int n = 1;
  for (char c : args) n += c == ',';
  return n;
}

// True if a gradient needs its own loop: one operation already has a loop. Counts calls and
// operators in the text of a formula; lit(...) is a constant.
constexpr bool has_loop(std::string_view formula) {
  int n = 0;
  for (size_t i = 0; i < formula.size(); ++i) {
    const char c = formula[i];
    if (formula.substr(i, 4) == "lit(") {
      while (formula[i] != ')') ++i;
    } else if (c == '(') {
      const char before = i == 0 ? ' ' : formula[i - 1];
      n += (before >= 'a' && before <= 'z') || (before >= '0' && before <= '9');
    } else {
      n += c == '+' || c == '-' || c == '*' || c == '/' || c == '?';
    }
  }
  return n > 1;
}

#define COGRAD_ROW(name, ...) name,
enum class UnaryOp : uint8_t {
#define UNARY COGRAD_ROW
#define UNARY_BOOL COGRAD_ROW
#include "kernels/elementwise/elementwise.def"
  kCount
};
enum class BinaryOp : uint8_t {
#define BINARY COGRAD_ROW
#define BINARY_BOOL COGRAD_ROW
#define BINARY_FLAT COGRAD_ROW
#include "kernels/elementwise/elementwise.def"
  kCount
};
enum class TernaryOp : uint8_t {
#define TERNARY COGRAD_ROW
#define TERNARY_COND COGRAD_ROW
#include "kernels/elementwise/elementwise.def"
  kCount
};
#undef COGRAD_ROW

// A row of elementwise.def, with any number of operands.
class ElementRow {
 public:
  ElementRow(UnaryOp op) noexcept : operands_(1), index_(static_cast<uint8_t>(op)) {}    // NOLINT
  ElementRow(BinaryOp op) noexcept : operands_(2), index_(static_cast<uint8_t>(op)) {}   // NOLINT
  ElementRow(TernaryOp op) noexcept : operands_(3), index_(static_cast<uint8_t>(op)) {}  // NOLINT
  // Returns null if the row has no kernel for that dtype (integer input of a float-only row: cast
  // first). Operands: the output, then the inputs in the row's order, all of dtype `t`; the output
  // of a _BOOL row is bool, and `where` takes a bool condition first.
  LoopFn loop(DType t) const noexcept {
    return operands_ == 1   ? unary(index_, t)
           : operands_ == 2 ? binary(index_, t)
                            : ternary(index_, t);
  }
  // Returns the relative cost of one element, for run_loop's cost_per_element.
  COGRAD_API int cost() const noexcept;
  unsigned types() const noexcept;  // the row's types column

 private:
  COGRAD_API static LoopFn unary(int index, DType t) noexcept;
  COGRAD_API static LoopFn binary(int index, DType t) noexcept;
  COGRAD_API static LoopFn ternary(int index, DType t) noexcept;
  uint8_t operands_, index_;
};

// Returns the fused gradient of a unary row, for floating dtypes only: ptrs = gx, g, then x or y if
// the row saves it; params as in the forward loop. Null if the row has no such loop.
COGRAD_API LoopFn unary_backward_loop(UnaryOp op, DType t) noexcept;
// Returns the fused gradient of a binary row with respect to input `which` (0 or 1): ptrs = the
// gradient, g, then those of a, b, y that its saves column names, in this order.
COGRAD_API LoopFn binary_backward_loop(BinaryOp op, int which, DType t) noexcept;

}  // namespace cograd::kernels
