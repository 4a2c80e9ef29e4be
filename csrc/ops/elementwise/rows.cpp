// SPDX-License-Identifier: BSD-3-Clause
// Ops made from the rows of elementwise.def that need nothing written by hand.
#include "ops/core/ops.h"
#include "ops/core/raw.h"

namespace cograd {

using kernels::BinaryOp;
using kernels::ElementParams;
using kernels::TernaryOp;
using kernels::UnaryOp;

namespace {

constexpr double lit(double v) { return v; }

constexpr int count_params(std::string_view s) {
  if (s.empty()) return 0;
  int n = 1;
  for (char c : s) n += c == ',';
  return n;
}

// What a row's gradient names, as bits: the inputs and the result.
enum Saves : int {
  G = 0,
  X = 1,
  A = 1,
  B = 2,
  AB = 3,
  C = 4,
  Y = 8,
  AY = 9,
  BY = 10,
  ABY = 11,
  BC = 6,
  NO = 16
};

constexpr Rule ALL = Rule::Same, NUMERIC = Rule::Same, INTEGER = Rule::Same, BITS = Rule::Same,
               FLOATS = Rule::Float, WIDE = Rule::Float;

struct Params {
  double p[3] = {0, 0, 0};
  ElementParams element() const {
    ElementParams e;
    for (int i = 0; i < 3; ++i) e.set(i, p[i]);
    return e;
  }
};

// One unary row. Row supplies spec, formula(g, x, y, p0, p1, p2).
template <class Row, UnaryOp K, Rule kRule, int kSaves>
struct UnaryCommon {
  static constexpr int kSaved = 1;
  using State = Params;
  static Tensor run(Ctx<Row>& ctx, const Tensor& x, Params p) {
    *ctx.operator->() = p;
    const ElementParams e = p.element();
    if constexpr (kSaves == X) ctx.save(x);
    Tensor y = unary_op(ctx, K, x, kRule, Row::spec.name, &e);
    if constexpr (kSaves == Y) ctx.save_output(y);
    return y;
  }
};
template <class Row, UnaryOp K, Rule kRule, int kSaves>
struct UnaryGrad : UnaryCommon<Row, K, kRule, kSaves> {
  static Tensor backward(Ctx<Row>& ctx, const Tensor& g) {
    const Params& p = *ctx.operator->();
    const Tensor kept = kSaves == G ? Tensor() : ctx.saved(0);
    const ElementParams e = p.element();
    Tensor fused = fused_backward(kernels::unary_backward_loop(K, g.dtype()), g,
                                  {&kept, kSaves == G ? size_t{0} : size_t{1}}, &e);
    if (fused.defined()) return fused;
    return Row::formula(g, kept, kept, p.p[0], p.p[1], p.p[2]);
  }
};
template <class Row, UnaryOp K, Rule kRule, int kSaves>
using UnaryPart = std::conditional_t<kSaves == NO, UnaryCommon<Row, K, kRule, kSaves>,
                                     UnaryGrad<Row, K, kRule, kSaves>>;

template <class Row, UnaryOp K, Rule kRule, int kSaves, int kParams>
struct UnaryRow;
template <class Row, UnaryOp K, Rule kRule, int kSaves>
struct UnaryRow<Row, K, kRule, kSaves, 0> : UnaryPart<Row, K, kRule, kSaves> {
  static Tensor forward(Ctx<Row>& ctx, const Tensor& x) { return UnaryRow::run(ctx, x, {}); }
};
template <class Row, UnaryOp K, Rule kRule, int kSaves>
struct UnaryRow<Row, K, kRule, kSaves, 1> : UnaryPart<Row, K, kRule, kSaves> {
  static Tensor forward(Ctx<Row>& ctx, const Tensor& x, double p0) {
    return UnaryRow::run(ctx, x, {{p0, 0, 0}});
  }
};
template <class Row, UnaryOp K, Rule kRule, int kSaves>
struct UnaryRow<Row, K, kRule, kSaves, 2> : UnaryPart<Row, K, kRule, kSaves> {
  static Tensor forward(Ctx<Row>& ctx, const Tensor& x, double p0, double p1) {
    return UnaryRow::run(ctx, x, {{p0, p1, 0}});
  }
};
template <class Row, UnaryOp K, Rule kRule, int kSaves>
struct UnaryRow<Row, K, kRule, kSaves, 3> : UnaryPart<Row, K, kRule, kSaves> {
  static Tensor forward(Ctx<Row>& ctx, const Tensor& x, double p0, double p1, double p2) {
    return UnaryRow::run(ctx, x, {{p0, p1, p2}});
  }
};

template <class Row, int kParams>
Tensor call_unary(const Tensor& x, double p0, double p1, double p2) {
  if constexpr (kParams == 0)
    return apply<Row>(x);
  else if constexpr (kParams == 1)
    return apply<Row>(x, p0);
  else if constexpr (kParams == 2)
    return apply<Row>(x, p0, p1);
  else
    return apply<Row>(x, p0, p1, p2);
}

// A number as an operand of a row whose formula wants tensors.
class Boxed {
 public:
  explicit Boxed(const TensorOrScalar& v)
      : made_(v.is_tensor() ? Tensor() : wrapped_number(v.scalar())),
        tensor_(v.is_tensor() ? v.tensor() : made_) {}
  const Tensor& get() const { return tensor_; }

 private:
  Tensor made_;
  const Tensor& tensor_;
};

template <class Row, BinaryOp K, Rule kRule, int kSavesA, int kSavesB>
struct BinaryCommon {
  static constexpr int kSaved = 3;
  using State = Params;
  static Tensor run(Ctx<Row>& ctx, const TensorOrScalar& a, const TensorOrScalar& b, Params p) {
    *ctx.operator->() = p;
    ElementParams e = p.element();
    if (!ctx.recording()) return binary_op(ctx, K, a, b, kRule, Row::spec.name, &e);
    const Boxed ta(a);
    const Boxed tb(b);
    const int uses = (ctx.needs(0) ? kSavesA : 0) | (ctx.needs(1) ? kSavesB : 0);
    ctx.save((uses & A) != 0 ? ta.get() : Tensor(), (uses & B) != 0 ? tb.get() : Tensor());
    Tensor y = binary_op(ctx, K, a, b, kRule, Row::spec.name, &e);
    if ((uses & Y) != 0) ctx.save_output(y);
    return y;
  }
  static void backward(Ctx<Row>& ctx, const Tensor& g) {
    const Params& p = *ctx.operator->();
    Tensor kept[3] = {ctx.saved(0), ctx.saved(1), ctx.saved(2)};
    for (int i = 0; i < 2; ++i) {
      if (!ctx.needs(static_cast<size_t>(i))) continue;
      Tensor named[3];
      size_t n = 0;
      const int uses = i == 0 ? kSavesA : kSavesB;
      if ((uses & A) != 0) named[n++] = kept[0];
      if ((uses & B) != 0) named[n++] = kept[1];
      if ((uses & Y) != 0) named[n++] = kept[2];
      const ElementParams e = p.element();
      Tensor out =
          fused_backward(kernels::binary_backward_loop(K, i, g.dtype()), g, {named, n}, &e);
      if (!out.defined())
        out = i == 0 ? Row::grad_a(g, kept[0], kept[1], kept[2], p.p[0])
                     : Row::grad_b(g, kept[0], kept[1], kept[2], p.p[0]);
      ctx.grad(static_cast<size_t>(i)) = std::move(out);
    }
  }
};

template <class Row, BinaryOp K, Rule kRule, int kSavesA, int kSavesB, int kParams>
struct BinaryRow : BinaryCommon<Row, K, kRule, kSavesA, kSavesB> {
  static Tensor forward(Ctx<Row>& ctx, const TensorOrScalar& a, const TensorOrScalar& b) {
    return BinaryRow::run(ctx, a, b, {});
  }
};
template <class Row, BinaryOp K, Rule kRule, int kSavesA, int kSavesB>
struct BinaryRow<Row, K, kRule, kSavesA, kSavesB, 1>
    : BinaryCommon<Row, K, kRule, kSavesA, kSavesB> {
  static Tensor forward(Ctx<Row>& ctx, const TensorOrScalar& a, const TensorOrScalar& b,
                        double p0) {
    return BinaryRow::run(ctx, a, b, {{p0, 0, 0}});
  }
};

template <class Row, int kParams>
Tensor call_binary(const TensorOrScalar& a, const TensorOrScalar& b, double p0) {
  if constexpr (kParams == 0)
    return apply<Row>(a, b);
  else
    return apply<Row>(a, b, p0);
}

template <class Row, BinaryOp K, Rule kRule>
struct FlatRow {
  static Tensor forward(Ctx<Row>& ctx, const TensorOrScalar& a, const TensorOrScalar& b) {
    ElementParams e;
    return binary_op(ctx, K, a, b, kRule, Row::spec.name, &e);
  }
};

template <class Row>
bool add_row() {  // rows without a docstring are called by ops written by hand
  return Row::spec.doc[0] == '\0' || add_op<Row>();
}

#define UNARY_SAMPLES(lo, hi) "T(3, 4, lo=" #lo ", hi=" #hi ")"
#define UNARY_INTS(lo, hi) "I(3, 4, hi=" #hi ")"
#define UNARY_OF_ALL UNARY_SAMPLES
#define UNARY_OF_NUMERIC UNARY_SAMPLES
#define UNARY_OF_FLOATS UNARY_SAMPLES
#define UNARY_OF_WIDE UNARY_SAMPLES
#define UNARY_OF_INTEGER UNARY_INTS
#define UNARY_OF_BITS UNARY_INTS
#define FLOAT_ARG(m, n, lo, hi) "T(" #m ", " #n ", lo=" #lo ", hi=" #hi ")"
#define INT_ARG(m, n, lo, hi) "I(" #m ", " #n ", hi=" #hi ")"
#define BINARY_SAMPLES(lo, hi) \
  FLOAT_ARG(3, 4, lo, hi)      \
  ", " FLOAT_ARG(3, 4, lo, hi) "; " FLOAT_ARG(3, 1, lo, hi) ", " FLOAT_ARG(1, 4, lo, hi)
#define BINARY_INTS(lo, hi) \
  INT_ARG(3, 4, lo, hi)     \
  ", " INT_ARG(3, 4, lo, hi) "; " INT_ARG(3, 1, lo, hi) ", " INT_ARG(1, 4, lo, hi)
#define BINARY_OF_ALL BINARY_SAMPLES
#define BINARY_OF_NUMERIC BINARY_SAMPLES
#define BINARY_OF_FLOATS BINARY_SAMPLES
#define BINARY_OF_WIDE BINARY_SAMPLES
#define BINARY_OF_INTEGER BINARY_INTS
#define BINARY_OF_BITS BINARY_INTS
#define GRADIENT(function, formula)                                       \
  [[maybe_unused]] static Tensor function(                                \
      [[maybe_unused]] const Tensor& g, [[maybe_unused]] const Tensor& a, \
      [[maybe_unused]] const Tensor& b, [[maybe_unused]] const Tensor& y, \
      [[maybe_unused]] double p0) {                                       \
    return Tensor(formula);                                               \
  }

#define UNARY(name, types, cost, params, fwd, saves, grad, doc, ref, lo, hi, ...)                  \
  struct Row_##name : UnaryRow<Row_##name, UnaryOp::name, types, saves, count_params(params)> {    \
    static constexpr OpSpec spec{#name,                                                            \
                                 "input, " params,                                                 \
                                 kForms | kElementwise | (saves == NO ? uint32_t{kNondiff} : 0),   \
                                 doc,                                                              \
                                 UNARY_OF_##types(lo, hi) "" __VA_ARGS__,                          \
                                 ref};                                                             \
    [[maybe_unused]] static Tensor formula([[maybe_unused]] const Tensor& g,                       \
                                           [[maybe_unused]] const Tensor& x,                       \
                                           [[maybe_unused]] const Tensor& y,                       \
                                           [[maybe_unused]] double p0, [[maybe_unused]] double p1, \
                                           [[maybe_unused]] double p2) {                           \
      return Tensor(grad);                                                                         \
    }                                                                                              \
  };                                                                                               \
  const bool added_##name = add_row<Row_##name>();
#define UNARY_BOOL(name, types, fwd, doc, ref, lo, hi)                                      \
  struct Row_##name {                                                                       \
    static constexpr OpSpec spec{                                                           \
        #name, "input", kForms | kElementwise | kNondiff, doc, UNARY_SAMPLES(lo, hi), ref}; \
    static Tensor forward(Ctx<Row_##name>& ctx, const Tensor& x) {                          \
      return unary_op(ctx, UnaryOp::name, x, Rule::Bool, #name);                            \
    }                                                                                       \
  };                                                                                        \
  const bool added_##name = add_row<Row_##name>();
#define BINARY(name, types, cost, params, fwd, saves_a, formula_a, saves_b, formula_b, doc, ref, \
               lo, hi)                                                                           \
  struct Row_##name                                                                              \
      : BinaryRow<Row_##name, BinaryOp::name, types, saves_a, saves_b, count_params(params)> {   \
    static constexpr OpSpec spec{                                                                \
        #name, "input, other", kForms | kElementwise, doc, BINARY_OF_##types(lo, hi), ref};      \
    GRADIENT(grad_a, formula_a)                                                                  \
    GRADIENT(grad_b, formula_b)                                                                  \
  };                                                                                             \
  const bool added_##name = add_row<Row_##name>();
#define BINARY_BOOL(name, types, fwd, doc, ref, lo, hi)                                          \
  struct Row_##name : FlatRow<Row_##name, BinaryOp::name, Rule::Bool> {                          \
    static constexpr OpSpec spec{                                                                \
        #name, "input, other", kForms | kElementwise | kNondiff, doc, BINARY_OF_##types(lo, hi), \
        ref};                                                                                    \
  };                                                                                             \
  const bool added_##name = add_row<Row_##name>();
#define BINARY_FLAT(name, types, cost, fwd, doc, ref, lo, hi)                                    \
  struct Row_##name : FlatRow<Row_##name, BinaryOp::name, types> {                               \
    static constexpr OpSpec spec{                                                                \
        #name, "input, other", kForms | kElementwise | kNondiff, doc, BINARY_OF_##types(lo, hi), \
        ref};                                                                                    \
  };                                                                                             \
  const bool added_##name = add_row<Row_##name>();
#define BINARY_CORE(...)
#include "ops/elementwise/elementwise.def"

}  // namespace

#define UNARY(name, types, cost, params, ...)                           \
  Tensor name(const Tensor& x, double p0, double p1, double p2) {       \
    return call_unary<Row_##name, count_params(params)>(x, p0, p1, p2); \
  }
#define UNARY_BOOL(name, ...) \
  Tensor name(const Tensor& x, double, double, double) { return apply<Row_##name>(x); }
#define BINARY(name, types, cost, params, ...)                               \
  Tensor name(const TensorOrScalar& a, const TensorOrScalar& b, double p0) { \
    return call_binary<Row_##name, count_params(params)>(a, b, p0);          \
  }
#define BINARY_BOOL(name, ...)                                            \
  Tensor name(const TensorOrScalar& a, const TensorOrScalar& b, double) { \
    return apply<Row_##name>(a, b);                                       \
  }
#define BINARY_FLAT BINARY_BOOL
#define BINARY_CORE(...)
#include "ops/elementwise/elementwise.def"

}  // namespace cograd
