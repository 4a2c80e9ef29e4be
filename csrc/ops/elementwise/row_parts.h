// SPDX-License-Identifier: BSD-3-Clause
// Rows of elementwise.def are declared with these parts: the doc column, the operands and functions
// of gradient formulas, and what each gradient needs.
#pragma once
#include <cmath>
#include <complex>
#include <span>

#include "ops/compute/elementwise.h"
#include "ops/compute/scalars.h"
#include "ops/declare/ops.h"
#include "ops/declare/parameters.h"

namespace cograd::rows {

using kernels::BinaryOp;
using kernels::count_args;
using kernels::ElementParams;
using kernels::TernaryOp;
using kernels::UnaryOp;
using namespace kernels::types;

constexpr double lit(double v) { return v; }

// The contents of the doc column.
struct Doc {
  const char* text;
  uint32_t flags = 0;
  uint32_t forms = kForms;
  uint32_t constants = 0;    // bits: operands that have no derivative
  const char* op = nullptr;  // the op that the row is a part of
  const char* node = nullptr;
  const char* number_node = nullptr;
  bool checked = true;  // scalars that the dtype cannot represent raise
  bool kinked = false;  // ops/declare/kinked.h
  constexpr Doc(const char* t, uint32_t f = 0) : text(t), flags(f) {}  // NOLINT: implicit by intent
  constexpr const char* title(const char* row) const { return op == nullptr ? row : op; }
};
constexpr Doc numbers(const char* text, uint32_t flags = 0) { return Doc(text, kNumbers | flags); }
constexpr Doc part(const char* op, const char* node, const char* number_node = nullptr) {
  Doc d("");
  d.op = op;
  d.node = node;
  d.number_node = number_node;
  return d;
}
constexpr Doc unchecked(Doc d) {
  d.checked = false;
  return d;
}
constexpr Doc not_in_place(Doc d) {
  d.forms &= ~uint32_t{kInplace};
  return d;
}
constexpr Doc with_kinks(Doc d) {
  d.kinked = true;
  return d;
}
// Describes an op of cograd.special: a function with out=, reached through that module.
constexpr Doc special(const char* text, uint32_t constants = 0) {
  Doc d(text, kInternal);
  d.forms = kOut;
  d.constants = constants;
  return d;
}
constexpr Doc no_gradient_of(uint32_t constants, const char* text) {
  Doc d(text);
  d.constants = constants;
  return d;
}
std::string node_name(const Doc& doc, const char* row, bool legacy_scalar_first);
// Raises if a parameter, one of those after `inputs` operands, is not representable in the dtype
// in which an op with results of dtype `t` computes.
void check_parameters(const OpSpec& spec, size_t inputs, std::span<const Scalar> params, DType t);

// An operand as a gradient formula uses it: a tensor or a scalar.
class Operand {
 public:
  Operand() noexcept = default;
  Operand(Tensor t) noexcept : tensor_(std::move(t)) {}  // NOLINT: implicit by intent
  Operand(Scalar s) noexcept : number_(s) {}             // NOLINT
  Operand(double v) noexcept : number_(v) {}             // NOLINT
  bool is_tensor() const noexcept { return tensor_.defined(); }
  const Tensor& tensor() const noexcept { return tensor_; }
  Scalar number() const noexcept { return number_; }
  operator TensorOrScalar() const noexcept {  // NOLINT
    return is_tensor() ? TensorOrScalar(tensor_) : TensorOrScalar(number_);
  }
  // A scalar converts to a 0-dim tensor of full precision that is weak in type promotion.
  operator Tensor() const& { return is_tensor() ? tensor_ : boxed(); }         // NOLINT
  operator Tensor() && { return is_tensor() ? std::move(tensor_) : boxed(); }  // NOLINT

 private:
  Tensor boxed() const;
  Tensor tensor_;
  Scalar number_;
};
// Computes an op of two operands that may both be scalars.
Operand arithmetic(BinaryOp op, const TensorOrScalar& a, const TensorOrScalar& b);
template <class L, class R>
concept WithOperand = std::is_same_v<L, Operand> || std::is_same_v<R, Operand>;
#define COGRAD_OPERATOR(op, name)                                         \
  template <class L, class R>                                             \
    requires WithOperand<L, R>                                            \
  auto operator op(const L& a, const R& b) {                              \
    if constexpr (std::is_same_v<L, Tensor> || std::is_same_v<R, Tensor>) \
      return name(a, b);                                                  \
    else                                                                  \
      return arithmetic(BinaryOp::name, a, b);                            \
  }
COGRAD_OPERATOR(+, add)
COGRAD_OPERATOR(-, sub)
COGRAD_OPERATOR(*, mul)
COGRAD_OPERATOR(/, div)
#undef COGRAD_OPERATOR
inline Operand operator-(const Operand& a) {
  return a.is_tensor() ? Operand(neg(a.tensor())) : Operand(-a.number());
}
// True if v is 0 or its real part is positive.
inline Tensor has_positive_part(const Operand& v) {
  const Tensor t(v);
  return ge(is_complex(t.dtype()) ? real(t) : t, 0);
}
// Returns g where v is finite, else 0; for complex v in each part.
inline Tensor where_finite(const Tensor& v, const Tensor& g) {
  if (!is_complex(v.dtype())) return where(isfinite(v), g, lit(0));
  return complex_of(where_finite(real(v), real(g)), where_finite(imag(v), imag(g)));
}
// Returns the logarithm of v, complex if y is.
inline Operand log_beside(const Tensor& y, const Operand& v) {
  if (v.is_tensor()) return log(v.tensor());
  const Scalar n = v.number();
  if (!is_complex(y.dtype())) return std::log(n.to_double());
  const std::complex<double> l = std::log(std::complex<double>(n.to_double(), n.imag()));
  return Scalar(Complex<double>(l.real(), l.imag()));
}
// Returns the derivative of erfcx from its asymptotic series, where the exact formula's terms
// cancel.
inline Tensor erfcx_slope_far(const Tensor& x) {
  const Tensor r = reciprocal(square(x));
  return r * ((r * (r * 13.125 - 3.75) + 1.5) * r - 1.0) * 0.56418958354775629;
}
inline Tensor scaled(const Tensor& g, const Operand& by) {
  return !by.is_tensor() && by.number().equals(1) ? g : mul(g, by);
}

// Raises: these ops keep their graph as torch does, but have no gradient.
[[noreturn]] Tensor no_derivative(const Tensor& g, const char* op);
[[noreturn]] Tensor not_implemented(const Tensor& g, const char* op);

// The inputs and the result that a gradient uses, as bits. NO: not differentiable.
enum Saves : int {
  G = 0,
  X = 1,
  A = 1,
  B = 2,
  AB = 3,
  C = 4,
  BC = 6,
  ABC = 7,
  Y = 8,
  AY = 9,
  BY = 10,
  ABY = 11,
  NO = 16
};
enum Cost { CHEAP, MATH, SLOW, DIVIDE };

// A gradient that is one product or quotient of g and a saved tensor, such as "g * b": the loop of
// the row `op` computes it. `of` is the letter of that tensor; NO: the gradient is another formula.
struct Step {
  BinaryOp op = BinaryOp::mul;
  int of = NO;
};
constexpr Step step_of(std::string_view formula) {
  const bool product = formula.starts_with("g * "), quotient = formula.starts_with("g / ");
  if (formula.size() != 5 || (!product && !quotient)) return {};
  const char c = formula[4];
  const int of = c == 'x' || c == 'a' ? A : c == 'b' ? B : c == 'y' ? Y : NO;
  return {product ? BinaryOp::mul : BinaryOp::div, of};
}

struct Gradient {
  int saves = NO;
  bool fused = false;
  Step step;
  // True if a loop computes it without ops.
  constexpr bool direct() const { return fused || step.of != NO; }
};
constexpr Gradient gradient(int saves, std::string_view formula, bool loops = true) {
  if (!loops || saves == NO) return {saves, false, {}};
  return {saves, kernels::has_loop(formula), step_of(formula)};
}

// Returns the dtypes that a row accepts: those of its loops and, if it computes in floats, also
// those that it converts.
constexpr DTypeSet claims(unsigned types) {
  const DTypeSet loops = types & ~MARKS;
  if ((types & COUNTED) == COUNTED) return kAllTypes | (loops & (COMPLEX | UNSIGNED));
  if ((types & INTEGER) == 0) return loops | kBitTypes | kUnsignedTypes;
  return (types & (ORDERED | WIDENED)) != 0 ? loops | kUnsignedTypes : loops;
}
// Rows without a loop for some dtype compute in a floating one.
constexpr Rule rule_of(unsigned types) {
  if ((types & COUNTED) == COUNTED) return Rule::Count;
  return (types & INTEGER) == 0 ? Rule::Float : Rule::Same;
}

}  // namespace cograd::rows
