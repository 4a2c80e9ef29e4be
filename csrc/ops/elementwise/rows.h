// SPDX-License-Identifier: BSD-3-Clause
// Expands a row of elementwise.def into an op: forward, gradients, fused gradients, names. Included
// by rows.cpp, which registers the rows, and by files of ops that choose among rows.
#pragma once
#include <array>
#include <span>

#include "ops/declare/kinked.h"
#include "ops/elementwise/row_parts.h"

namespace cograd::rows {

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

// Gradients of rows that are recorded on a GPU have kernels of their own, which may be compiled by
// the time that backward asks for them.
void expect_gradients(const CtxBase& ctx, UnaryOp k, const Gradient* grads, const Tensor& y,
                      const Tensor& x);
void expect_gradients(const CtxBase& ctx, BinaryOp k, const Gradient* grads, const Tensor& y,
                      const TensorOrScalar& a, const TensorOrScalar& b);

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
    if constexpr (kInputs < 3 && (kGrads.direct() || ...)) {
      if (ctx.recording() && y->device.type != DeviceType::CPU) [[unlikely]]
        expect_gradients(ctx, kKernel, kGrad, y, in...);
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
    if constexpr ((kUnion & kLetter) != 0) {
      const Tensor none;
      ctx.save((uses & kLetter) != 0 ? t : none);
    }
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
  static void backward(Ctx<Row>& ctx, const Tensor& g) {
    put(ctx, g, std::make_index_sequence<Forward::kInputs>());
  }

 protected:
  struct Kept {
    Operand in[Forward::kInputs];
    Tensor y;
  };
  template <size_t I>
  static Tensor one(Ctx<Row>& ctx, const Tensor& g, const Kept& kept) {
    if constexpr (Forward::kGrad[I].saves == NO)
      return Tensor();
    else
      return formula<I>(*ctx.operator->(), g, kept);
  }

 private:
  template <size_t... I>
  static void put(Ctx<Row>& ctx, const Tensor& g, std::index_sequence<I...>) {
    if constexpr (Forward::kUnion == 0) {
      static const Kept nothing;
      (set_grad<I>(ctx, g, nothing), ...);
    } else {
      Kept kept;
      const int uses = Forward::used(ctx);
      (unpack<I>(ctx, kept, uses), ...);
      if constexpr ((Forward::kUnion & Y) != 0) {
        if ((uses & Y) != 0) kept.y = ctx.saved(Forward::slot(Y));
      }
      (set_grad<I>(ctx, g, kept), ...);
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
  template <size_t I>
  static void set_grad(Ctx<Row>& ctx, const Tensor& g, const Kept& kept) {
    if (Forward::kGrad[I].saves == NO || !ctx.needs(I)) return;
    ctx.grad(I) = one<I>(ctx, g, kept);
    if constexpr (Row::kDoc.kinked) ctx.grad(I) = kinked(ctx, std::move(ctx.grad(I)), I);
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
// A row with a gradient that a loop computes over values, if no graph is recorded.
template <class Forward, class Row>
struct RowFusedGradient : RowGradient<Forward, Row> {
  static void backward_fused(Ctx<Row>& ctx, const Tensor& g) {
    put(ctx, g, std::make_index_sequence<Forward::kInputs>());
  }

 private:
  using Kept = typename RowGradient<Forward, Row>::Kept;
  using Slots = std::array<Tensor, static_cast<size_t>(Forward::kSaved)>;

  template <size_t... I>
  static void put(Ctx<Row>& ctx, const Tensor& g, std::index_sequence<I...>) {
    const BackwardArgs& args = ctx.args();
    const bool needs[] = {(Forward::kGrad[I].saves != NO && args.needs(I))...};
    Slots saved;
    if constexpr (Forward::kUnion != 0) {
      int uses = 0;
      ((uses |= needs[I] ? Forward::kGrad[I].saves : 0), ...);
      (unpack<I>(ctx, saved, uses), ...);
      if constexpr ((Forward::kUnion & Y) != 0) {
        if ((uses & Y) != 0) saved[Forward::slot(Y)] = ctx.saved(Forward::slot(Y));
      }
    }
    (set_grad<I>(ctx, g, saved, needs), ...);
  }
  template <size_t I>
  static void unpack(Ctx<Row>& ctx, Slots& saved, int uses) {
    constexpr int kLetter = 1 << I;
    if constexpr ((Forward::kUnion & kLetter) != 0) {
      constexpr int kSlot = Forward::slot(kLetter);
      if ((uses & kLetter) != 0 && !is_number<I>(ctx)) saved[kSlot] = ctx.saved(kSlot);
    }
  }
  template <size_t I>
  static bool is_number([[maybe_unused]] const Ctx<Row>& ctx) {
    if constexpr (Forward::kNumber)
      return ctx->number.operand == static_cast<int>(I);
    else
      return false;
  }
  // The gradient of the last input that needs one may be written over g.
  template <size_t I>
  static void set_grad(Ctx<Row>& ctx, const Tensor& g, const Slots& saved,
                       const bool (&needs)[Forward::kInputs]) {
    if (!needs[I]) return;
    bool last = true;
    for (size_t i = I + 1; i < Forward::kInputs; ++i) last &= !needs[i];
    Tensor& out = ctx.grad(I);
    if constexpr (Forward::kGrad[I].direct()) out = direct<I>(ctx, g, saved, last);
    if (!out.defined())
      out = RowGradient<Forward, Row>::template one<I>(
          ctx, g, kept<I>(ctx, saved, std::make_index_sequence<Forward::kInputs>()));
  }
  // Returns an undefined tensor if the formula must be used.
  template <size_t I>
  static Tensor direct(Ctx<Row>& ctx, const Tensor& g, const Slots& saved, bool last) {
    constexpr Gradient kThis = Forward::kGrad[I];
    if constexpr (kThis.fused) {
      return fused<I>(ctx, g, saved, last, std::make_index_sequence<Forward::kInputs>());
    } else {
      if constexpr ((kThis.step.of & (A | B)) != 0)
        if (is_number<kThis.step.of == B ? 1 : 0>(ctx)) return Tensor();
      return gradient_step(kThis.step.op, g, saved[Forward::slot(kThis.step.of)], last);
    }
  }
  template <size_t I, size_t... J>
  static Tensor fused(Ctx<Row>& ctx, const Tensor& g, const Slots& saved, bool last,
                      std::index_sequence<J...>) {
    constexpr int kLetters = Forward::kGrad[I].saves;
    const kernels::LoopFn loop = gradient_loop(Row::kKernel, I, g.dtype());
    const Tensor* named[4];
    size_t n = 0;
    const auto add = [&](auto input) {
      constexpr int kLetter = 1 << decltype(input)::value;
      if constexpr ((kLetters & kLetter) != 0) named[n++] = &saved[Forward::slot(kLetter)];
    };
    (add(At<J>()), ...);
    if constexpr ((kLetters & Y) != 0) named[n++] = &saved[Forward::slot(Y)];
    if constexpr (Forward::kNumber) {
      const int operand = ctx->number.operand;
      if (operand >= 0 && (kLetters >> operand & 1) != 0) {
        const int at = __builtin_popcount(static_cast<unsigned>(kLetters & ((1 << operand) - 1)));
        return fused_with_number(ctx, loop, g, {named, n}, static_cast<size_t>(at), last);
      }
    }
    if constexpr (Forward::kParams > 0) {
      const ElementParams e = Forward::element(*ctx.operator->());
      return fused_backward(loop, g, {named, n}, &e, last);
    } else {
      return fused_backward(loop, g, {named, n}, nullptr, last);
    }
  }
  // Runs the loop with the scalar operand as saved tensor `at`.
  [[gnu::noinline]] static Tensor fused_with_number(Ctx<Row>& ctx, kernels::LoopFn loop,
                                                    const Tensor& g, std::span<const Tensor*> named,
                                                    size_t at, bool last) {
    const Scalar number = ctx->number.value;
    const Tensor boxed = wrapped_number(number, g.dtype());
    named[at] = &boxed;
    ElementParams e = Forward::element(*ctx.operator->());
    e.number_at = static_cast<int>(at) + 2;  // after the result and g
    e.number = static_cast<float>(number.to_double());
    return fused_backward(loop, g, named, &e, last);
  }
  // Returns what the formula of gradient I uses.
  template <size_t I, size_t... J>
  [[gnu::noinline]] static Kept kept(Ctx<Row>& ctx, const Slots& saved, std::index_sequence<J...>) {
    constexpr int kLetters = Forward::kGrad[I].saves;
    Kept k;
    const auto put_one = [&](auto input) {
      constexpr size_t kInput = decltype(input)::value;
      constexpr int kLetter = 1 << kInput;
      if constexpr ((kLetters & kLetter) != 0) {
        if (!is_number<kInput>(ctx)) k.in[kInput] = Operand(saved[Forward::slot(kLetter)]);
        if constexpr (Forward::kNumber)
          if (is_number<kInput>(ctx)) k.in[kInput] = Operand(ctx->number.value);
      }
    };
    (put_one(At<J>()), ...);
    if constexpr ((kLetters & Y) != 0) k.y = saved[Forward::slot(Y)];
    return k;
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
    Row, a.saves != NO, a.direct()>;
template <class Row, BinaryOp k, unsigned kTypes, Cost cost, int kArgs, bool kPart, Gradient a,
          Gradient b>
using BinaryRow =
    RowOp<RowForward<Row, k, rule_of(kTypes), cost == DIVIDE,
                     std::tuple<TensorOrScalar, TensorOrScalar>, Params<kArgs - 2, kPart>, a, b>,
          Row, a.saves != NO, a.direct() || b.direct()>;
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
