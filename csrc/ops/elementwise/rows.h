// SPDX-License-Identifier: BSD-3-Clause
// Expands a row of elementwise.def into an op: forward, gradients, fused gradients, names. Included
// by rows.cpp, which registers the rows, and by files of ops that choose among rows.
#pragma once
#include <cmath>
#include <complex>
#include <optional>
#include <span>

#include "ops/compute/elementwise.h"
#include "ops/compute/scalars.h"
#include "ops/declare/kinked.h"
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

struct Gradient {
  int saves = NO;
  bool fused = false;
};
constexpr Gradient gradient(int saves, std::string_view formula, bool loops = true) {
  return {saves, loops && saves != NO && kernels::has_loop(formula)};
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

template <size_t I>
using At = std::integral_constant<size_t, I>;
template <int>
struct Nothing {};

inline Tensor compute(CtxBase& c, UnaryOp k, Rule r, const char* n, ElementParams* e,
                      const Tensor& x) {
  return unary_op(c, k, x, r, n, e);
}
inline Tensor compute(CtxBase& c, BinaryOp k, Rule r, const char* n, ElementParams* e,
                      const TensorOrScalar& x, const TensorOrScalar& y) {
  return binary_op(c, k, x, y, r, n, e);
}
inline Tensor compute(CtxBase& c, TernaryOp k, Rule r, const char* n, ElementParams* e,
                      const TensorOrScalar& x, const TensorOrScalar& y, const TensorOrScalar& z) {
  return ternary_op(c, k, x, y, z, r, n, e);
}
inline Tensor compute(CtxBase& c, TernaryOp, Rule, const char*, ElementParams*, const Tensor& x,
                      const TensorOrScalar& y, const TensorOrScalar& z) {
  return where_op(c, x, y, z);
}
inline kernels::LoopFn gradient_loop(UnaryOp k, size_t, DType t) {
  return kernels::unary_backward_loop(k, t);
}
inline kernels::LoopFn gradient_loop(BinaryOp k, size_t i, DType t) {
  return kernels::binary_backward_loop(k, static_cast<int>(i), t);
}

// A row as an op. Row supplies spec and grad(At<i>, g, inputs..., y, params...) for each input i.
template <class Row, auto kKernel, Rule kRule, bool kDivides, class Inputs, class Params,
          Gradient... kGrads>
struct RowForward;
template <class Row, auto kKernel, Rule kRule, bool kDivides, class... In, class... P,
          Gradient... kGrads>
struct RowForward<Row, kKernel, kRule, kDivides, std::tuple<In...>, std::tuple<P...>, kGrads...> {
  static constexpr BatchRule kBatch = pointwise();
  static constexpr size_t kInputs = sizeof...(In), kParams = sizeof...(P);
  static constexpr bool kCondition =
      kInputs == 3 && std::is_same_v<std::tuple_element_t<0, std::tuple<In...>>, Tensor>;
  static constexpr Gradient kGrad[kInputs] = {kGrads...};
  static constexpr int kUnion = (kGrads.saves | ... | 0) & (ABC | Y);
  static constexpr int kSaved = __builtin_popcount(static_cast<unsigned>(kUnion));
  static constexpr bool kNumber = kInputs > 1 && (kUnion & ABC) != 0;
  struct Number {  // the saved operand that is a scalar, if any
    Scalar value;
    int operand = -1;
  };
  struct State {
    [[no_unique_address]] std::conditional_t<(kParams > 0), std::array<Scalar, kParams>, Nothing<0>>
        params;
    [[no_unique_address]] std::conditional_t<kNumber, Number, Nothing<1>> number;
  };

  static Tensor forward(Ctx<Row>& ctx, const In&... in, P... p) {
    State& s = *ctx.operator->();
    if constexpr (kParams > 0) s.params = {Scalar(p)...};
    if constexpr (kParams > 0 && Row::kDoc.checked) check_numbers(s, in...);
    if constexpr (kUnion != 0) {
      if (ctx.recording()) keep(ctx, std::index_sequence_for<In...>(), in...);
    }
    Tensor y;
    if constexpr (kParams > 0 || kDivides) {
      ElementParams e = element(s);
      y = compute(ctx, kKernel, kRule, Row::spec.name, &e, in...);
    } else {
      y = compute(ctx, kKernel, kRule, Row::spec.name, nullptr, in...);
    }
    if constexpr ((kUnion & Y) != 0) {
      if (ctx.recording() && (used(ctx) & Y) != 0) ctx.save_output(y);
    }
    return y;
  }
  static std::string node_name([[maybe_unused]] const State& s) {
    if constexpr (kNumber)
      return rows::node_name(Row::kDoc, Row::kName, s.number.operand == 0);
    else
      return rows::node_name(Row::kDoc, Row::kName, false);
  }

 protected:
  // Checks that each parameter is representable in the dtype of the computation.
  static void check_numbers(const State& s, const In&... in) {
    ResultType type;
    (type.add(in), ...);
    DType t = type.get();
    if (kRule == Rule::Float && !is_differentiable(t)) t = default_dtype();
    check_parameters(Row::spec, kInputs, s.params, t);
  }
  static ElementParams element([[maybe_unused]] const State& s) {
    ElementParams e;
    if constexpr (kParams > 0) {
      for (size_t i = 0; i < kParams; ++i) {
        const Scalar v = s.params[i];
        const int k = static_cast<int>(i);
        v.is_float() || v.is_complex() ? e.set(k, v.to_double()) : e.set(k, v.to_int());
        e.imag[i] = v.imag();
      }
    }
    return e;
  }
  // Returns the letters that the requested gradients use.
  static int used(const Ctx<Row>& ctx) {
    int uses = 0;
    for (size_t i = 0; i < kInputs; ++i)
      if (ctx.needs(i)) uses |= kGrad[i].saves;
    return uses;
  }
  static constexpr int slot(int letter) {
    return __builtin_popcount(static_cast<unsigned>(kUnion & (letter - 1)));
  }

 private:
  template <size_t... I>
  static void keep(Ctx<Row>& ctx, std::index_sequence<I...>, const In&... in) {
    const int uses = used(ctx);
    (keep_one<I>(ctx, in, uses), ...);
  }
  template <size_t I>
  static void keep_one(Ctx<Row>& ctx, const Tensor& t, int uses) {
    constexpr int kLetter = 1 << I;
    if constexpr ((kUnion & kLetter) != 0) ctx.save((uses & kLetter) != 0 ? t : Tensor());
  }
  template <size_t I>
  static void keep_one(Ctx<Row>& ctx, const TensorOrScalar& v, int uses) {
    constexpr int kLetter = 1 << I;
    if constexpr ((kUnion & kLetter) != 0) {
      Number& n = ctx->number;
      if (v.is_tensor()) return keep_one<I>(ctx, v.tensor(), uses);
      if (n.operand >= 0) return keep_one<I>(ctx, Tensor(Operand(v.scalar())), uses);
      n = {v.scalar(), static_cast<int>(I)};
      ctx.save(Tensor());
    }
  }
};

template <class Forward, class Row>
struct RowGradient : Forward {
  // Formulas that use only g have real coefficients unless they have parameters.
  static constexpr bool kHolomorphic = Forward::kUnion != 0 || Forward::kParams > 0;
  static constexpr TangentRule kTangent = self_adjoint();
  static void backward(Ctx<Row>& ctx, const Tensor& g) { RowGradient::template run<false>(ctx, g); }

 protected:
  struct Kept {
    Operand in[Forward::kInputs];
    Tensor y;
  };
  template <bool kFuse>
  static void run(Ctx<Row>& ctx, const Tensor& g) {
    put<kFuse>(ctx, g, std::make_index_sequence<Forward::kInputs>());
  }

 private:
  template <bool kFuse, size_t... I>
  static void put(Ctx<Row>& ctx, const Tensor& g, std::index_sequence<I...>) {
    if constexpr (Forward::kUnion == 0) {
      static const Kept nothing;
      (set_grad<kFuse, I>(ctx, g, nothing), ...);
    } else {
      Kept kept;
      const int uses = Forward::used(ctx);
      (unpack<I>(ctx, kept, uses), ...);
      if constexpr ((Forward::kUnion & Y) != 0) {
        if ((uses & Y) != 0) kept.y = ctx.saved(Forward::slot(Y));
      }
      (set_grad<kFuse, I>(ctx, g, kept), ...);
    }
  }
  template <size_t I>
  static void unpack(Ctx<Row>& ctx, Kept& kept, int uses) {
    constexpr int kLetter = 1 << I;
    if constexpr ((Forward::kUnion & kLetter) != 0) {
      if ((uses & kLetter) == 0) return;
      if constexpr (Forward::kNumber) {
        if (ctx->number.operand == static_cast<int>(I)) {
          kept.in[I] = Operand(ctx->number.value);
          return;
        }
      }
      kept.in[I] = Operand(ctx.saved(Forward::slot(kLetter)));
    }
  }
  template <bool kFuse, size_t I>
  static void set_grad(Ctx<Row>& ctx, const Tensor& g, const Kept& kept) {
    if (Forward::kGrad[I].saves == NO || !ctx.needs(I)) return;
    ctx.grad(I) = one<kFuse, I>(ctx, g, kept);
    if constexpr (Row::kDoc.kinked && !kFuse) ctx.grad(I) = kinked(ctx, std::move(ctx.grad(I)), I);
  }
  template <bool kFuse, size_t I>
  static Tensor one(Ctx<Row>& ctx, const Tensor& g, const Kept& kept) {
    constexpr Gradient kThis = Forward::kGrad[I];
    if constexpr (kThis.saves == NO) {
      return Tensor();
    } else {
      if constexpr (kFuse && kThis.fused) {
        Tensor out = fused<I>(ctx, g, kept);
        if (out.defined()) return out;
      }
      return formula<I>(*ctx.operator->(), g, kept);
    }
  }
  template <size_t I>
  static Tensor fused(Ctx<Row>& ctx, const Tensor& g, const Kept& kept) {
    Tensor boxed;  // at most one operand is a scalar
    std::optional<ElementParams> e;
    if constexpr (Forward::kParams > 0) e = Forward::element(*ctx.operator->());
    const Tensor* named[4];
    size_t n = 0;
    for (size_t i = 0; i < Forward::kInputs; ++i) {
      if ((Forward::kGrad[I].saves & (1 << i)) == 0) continue;
      if (!kept.in[i].is_tensor()) {
        boxed = wrapped_number(kept.in[i].number(), g.dtype());
        if (!e) e.emplace();
        e->number_at = static_cast<int>(n) + 2;  // after the result and g
        e->number = static_cast<float>(kept.in[i].number().to_double());
      }
      named[n++] = kept.in[i].is_tensor() ? &kept.in[i].tensor() : &boxed;
    }
    if ((Forward::kGrad[I].saves & Y) != 0) named[n++] = &kept.y;
    const kernels::LoopFn loop = gradient_loop(Row::kKernel, I, g.dtype());
    return fused_backward(loop, g, {named, n}, e ? &*e : nullptr);
  }
  // Casts v to the gradient's dtype if v's dtype is narrower.
  static void widen(Operand& v, DType t) {
    if (!v.is_tensor()) return;
    const DType have = v.tensor().dtype();
    if (have != t && promote_types(have, t) == t) v = cast(v.tensor(), t);
  }
  // Computes several steps in float32 for 16-bit dtypes, so that only the result is rounded, as in
  // the fused loop.
  template <size_t I>
  static Tensor formula(const typename Forward::State& s, const Tensor& g, const Kept& kept) {
    const DType t = g.dtype();
    const bool narrow = Forward::kGrad[I].fused && is_half(t);
    bool mixed = narrow;
    constexpr size_t kFirst = Forward::kCondition ? 1 : 0;
    for (size_t i = kFirst; i < Forward::kInputs; ++i)
      mixed |= kept.in[i].is_tensor() && kept.in[i].tensor().dtype() != t;
    if (!mixed) return exact<I>(s, g, kept);
    Kept wide = kept;
    const DType computed = narrow ? DType::Float32 : t;
    for (size_t i = kFirst; i < Forward::kInputs; ++i) widen(wide.in[i], computed);
    if (!narrow) return exact<I>(s, g, wide);
    if (wide.y.defined()) wide.y = cast(wide.y, computed);
    return cast(exact<I>(s, cast(g, computed), wide), t);
  }
  template <size_t I>
  static Tensor exact([[maybe_unused]] const typename Forward::State& s, const Tensor& g,
                      const Kept& k) {
    auto param = [&]([[maybe_unused]] size_t i) {
      if constexpr (Forward::kParams > 0) return i < Forward::kParams ? s.params[i] : Scalar();
      return Scalar();
    };
    if constexpr (Forward::kInputs == 1)
      return Row::grad(At<0>(), g, k.in[0].tensor(), k.y, param(0).to_double(),
                       param(1).to_double(), param(2).to_double());
    else if constexpr (Forward::kInputs == 2)
      return Row::grad(At<I>(), g, k.in[0], k.in[1], k.y, Operand(param(0)));
    else if constexpr (Forward::kCondition)
      return Row::grad(At<I>(), g, k.in[0].tensor(), k.in[1], k.in[2], Operand(param(0)));
    else
      return Row::grad(At<I>(), g, k.in[0], k.in[1], k.in[2], Operand(param(0)));
  }
};
template <class Forward, class Row>
struct RowFusedGradient : RowGradient<Forward, Row> {
  static void backward_fused(Ctx<Row>& ctx, const Tensor& g) {
    RowFusedGradient::template run<true>(ctx, g);
  }
};

template <class Forward, class Row, bool kAny, bool kFused>
using RowOp = std::conditional_t<
    !kAny, Forward,
    std::conditional_t<kFused, RowFusedGradient<Forward, Row>, RowGradient<Forward, Row>>>;

template <class T, int n>
struct Repeat {
  using type = decltype(std::tuple_cat(std::tuple<T>(), typename Repeat<T, n - 1>::type()));
};
template <class T>
struct Repeat<T, 0> {
  using type = std::tuple<>;
};
// Python passes plain floats for parameters; parts of hand-written ops get Scalars.
template <int n, bool kPart>
using Params = typename Repeat<std::conditional_t<kPart, Scalar, double>, n>::type;

template <class Row, UnaryOp k, unsigned kTypes, int kArgs, bool kPart, Gradient a>
using UnaryRow = RowOp<
    RowForward<Row, k, rule_of(kTypes), false, std::tuple<Tensor>, Params<kArgs - 1, kPart>, a>,
    Row, a.saves != NO, a.fused>;
template <class Row, BinaryOp k, unsigned kTypes, Cost cost, int kArgs, bool kPart, Gradient a,
          Gradient b>
using BinaryRow =
    RowOp<RowForward<Row, k, rule_of(kTypes), cost == DIVIDE,
                     std::tuple<TensorOrScalar, TensorOrScalar>, Params<kArgs - 2, kPart>, a, b>,
          Row, a.saves != NO, a.fused || b.fused>;
template <class Row, TernaryOp k, unsigned kTypes, int kArgs, class First, Gradient a, Gradient b,
          Gradient c>
using TernaryRow = RowOp<
    RowForward<Row, k, rule_of(kTypes), false, std::tuple<First, TensorOrScalar, TensorOrScalar>,
               Params<kArgs - 3, true>, a, b, c>,
    Row, true, false>;

#define COGRAD_ANY [[maybe_unused]]
#define GRADIENT_1(formula)                                                                  \
  static Tensor grad(At<0>, COGRAD_ANY const Tensor& g, COGRAD_ANY const Tensor& x,          \
                     COGRAD_ANY const Tensor& y, COGRAD_ANY double p0, COGRAD_ANY double p1, \
                     COGRAD_ANY double p2) {                                                 \
    return Tensor(formula);                                                                  \
  }
#define GRADIENT_2(i, formula)                                                       \
  static Tensor grad(At<i>, COGRAD_ANY const Tensor& g, COGRAD_ANY const Operand& a, \
                     COGRAD_ANY const Operand& b, COGRAD_ANY const Tensor& y,        \
                     COGRAD_ANY const Operand& p0) {                                 \
    return Tensor(formula);                                                          \
  }
#define GRADIENT_3(i, First, formula)                                              \
  static Tensor grad(At<i>, COGRAD_ANY const Tensor& g, COGRAD_ANY const First& a, \
                     COGRAD_ANY const Operand& b, COGRAD_ANY const Operand& c,     \
                     COGRAD_ANY const Operand& p0) {                               \
    return Tensor(formula);                                                        \
  }

// Sample arguments of the generated tests.
#define FLOAT_ARG(m, n, lo, hi) "T(" #m ", " #n ", lo=" #lo ", hi=" #hi ")"
#define INT_ARG(m, n, lo, hi) "I(" #m ", " #n ", hi=" #hi ")"
#define SAMPLES_1(types, lo, hi, ...)                              \
  ((types) & FLOATS) != 0 ? FLOAT_ARG(3, 4, lo, hi) "" __VA_ARGS__ \
                          : INT_ARG(3, 4, lo, hi) "" __VA_ARGS__
#define PAIRS(arg, lo, hi) \
  arg(3, 4, lo, hi) ", " arg(3, 4, lo, hi) "; " arg(3, 1, lo, hi) ", " arg(1, 4, lo, hi)
#define SAMPLES_2(types, lo, hi, ...)                               \
  ((types) & FLOATS) != 0 ? PAIRS(FLOAT_ARG, lo, hi) "" __VA_ARGS__ \
                          : PAIRS(INT_ARG, lo, hi) "" __VA_ARGS__
#define TRIPLE(arg, lo, hi) arg(3, 4, lo, hi) ", " arg(3, 1, lo, hi) ", " arg(1, 4, lo, hi)
#define SAMPLES_3(types, lo, hi) \
  ((types) & FLOATS) != 0 ? TRIPLE(FLOAT_ARG, lo, hi) : TRIPLE(INT_ARG, lo, hi)

#define UNARY(name, types, cost, args, fwd, saves, formula, doc, ref, lo, hi, ...)  \
  struct Row_##name : UnaryRow<Row_##name, UnaryOp::name, types, count_args(args),  \
                               Doc(doc).op != nullptr, gradient(saves, #formula)> { \
    static constexpr Doc kDoc = doc;                                                \
    static constexpr const char* kName = #name;                                     \
    static constexpr DTypeSet kDTypes = claims(types);                              \
    static constexpr UnaryOp kKernel = UnaryOp::name;                               \
    static constexpr OpSpec spec{                                                   \
        kDoc.title(#name),                                                          \
        args,                                                                       \
        kDoc.forms | kElementwise | kDoc.flags | ((saves) == NO ? kNondiff : 0u),   \
        kDoc.text,                                                                  \
        SAMPLES_1(types, lo, hi, __VA_ARGS__),                                      \
        ref};                                                                       \
    GRADIENT_1(formula)                                                             \
  };
#define UNARY_BOOL(name, types, fwd, doc, ref, lo, hi)                                             \
  struct Row_##name : RowForward<Row_##name, UnaryOp::name, Rule::Bool, false, std::tuple<Tensor>, \
                                 std::tuple<>, Gradient{}> {                                       \
    static constexpr Doc kDoc = doc;                                                               \
    static constexpr const char* kName = #name;                                                    \
    static constexpr DTypeSet kDTypes = claims(types);                                             \
    static constexpr OpSpec spec{#name,                                                            \
                                 "input",                                                          \
                                 kDoc.forms | kElementwise | kNondiff | kDoc.flags,                \
                                 kDoc.text,                                                        \
                                 SAMPLES_1(types, lo, hi),                                         \
                                 ref};                                                             \
  };
#define BINARY(name, types, cost, args, fwd, saves_a, formula_a, saves_b, formula_b, doc, ref, lo, \
               hi, ...)                                                                            \
  struct Row_##name : BinaryRow<Row_##name, BinaryOp::name, types, cost, count_args(args),         \
                                Doc(doc).op != nullptr, gradient(saves_a, #formula_a),             \
                                gradient(saves_b, #formula_b)> {                                   \
    static constexpr Doc kDoc = doc;                                                               \
    static constexpr const char* kName = #name;                                                    \
    static constexpr DTypeSet kDTypes = claims(types);                                             \
    static constexpr BinaryOp kKernel = BinaryOp::name;                                            \
    static constexpr uint32_t kConstants = kDoc.constants;                                         \
    static constexpr OpSpec spec{                                                                  \
        kDoc.title(#name),                                                                         \
        args,                                                                                      \
        kDoc.forms | kElementwise | kDoc.flags | ((saves_a) == NO ? kNondiff : 0u),                \
        kDoc.text,                                                                                 \
        SAMPLES_2(types, lo, hi, __VA_ARGS__),                                                     \
        ref};                                                                                      \
    GRADIENT_2(0, formula_a)                                                                       \
    GRADIENT_2(1, formula_b)                                                                       \
  };
#define FLAT_ROW(name, types, cost, rule, doc, ref, lo, hi)                                 \
  struct Row_##name : RowForward<Row_##name, BinaryOp::name, rule, (cost) == DIVIDE,        \
                                 std::tuple<TensorOrScalar, TensorOrScalar>, std::tuple<>,  \
                                 Gradient{}, Gradient{}> {                                  \
    static constexpr Doc kDoc = doc;                                                        \
    static constexpr const char* kName = #name;                                             \
    static constexpr DTypeSet kDTypes = claims(types);                                      \
    static constexpr OpSpec spec{                                                           \
        #name,     "input, other",           kForms | kElementwise | kNondiff | kDoc.flags, \
        kDoc.text, SAMPLES_2(types, lo, hi), ref};                                          \
  };
#define BINARY_BOOL(name, types, fwd, doc, ref, lo, hi) \
  FLAT_ROW(name, types, CHEAP, Rule::Bool, doc, ref, lo, hi)
#define BINARY_FLAT(name, types, cost, fwd, doc, ref, lo, hi) \
  FLAT_ROW(name, types, cost, rule_of(types), doc, ref, lo, hi)
#define TERNARY_ROW(name, types, args, First, Condition, saves_a, formula_a, saves_b, formula_b, \
                    saves_c, formula_c, doc, samples, ref)                                       \
  struct Row_##name : TernaryRow<Row_##name, TernaryOp::name, types, count_args(args), First,    \
                                 gradient(saves_a, "", false), gradient(saves_b, "", false),     \
                                 gradient(saves_c, "", false)> {                                 \
    static constexpr Doc kDoc = doc;                                                             \
    static constexpr const char* kName = #name;                                                  \
    static constexpr DTypeSet kDTypes = claims(types);                                           \
    static constexpr OpSpec spec{kDoc.title(#name), args,    kForms | kElementwise | kDoc.flags, \
                                 kDoc.text,         samples, ref};                               \
    GRADIENT_3(0, Condition, formula_a)                                                          \
    GRADIENT_3(1, Condition, formula_b)                                                          \
    GRADIENT_3(2, Condition, formula_c)                                                          \
  };
#define TERNARY(name, types, cost, args, fwd, saves_a, formula_a, saves_b, formula_b, saves_c,    \
                formula_c, doc, ref, lo, hi)                                                      \
  TERNARY_ROW(name, types, args, TensorOrScalar, Operand, saves_a, formula_a, saves_b, formula_b, \
              saves_c, formula_c, doc, SAMPLES_3(types, lo, hi), ref)
#define TERNARY_COND(name, types, args, fwd, saves_b, formula_b, saves_c, formula_c, doc)       \
  TERNARY_ROW(name, types, args, Tensor, Tensor, NO, g, saves_b, formula_b, saves_c, formula_c, \
              doc, "", "")
#include "kernels/elementwise/elementwise.def"
#undef FLAT_ROW
#undef TERNARY_ROW

}  // namespace cograd::rows
