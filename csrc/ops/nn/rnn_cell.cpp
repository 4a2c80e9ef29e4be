// SPDX-License-Identifier: BSD-3-Clause
// _lstm_cell: a step of an LSTM up to its output gate and cell. Another op computes the state from
// the returned cell, because the state depends on it.
#include "ops/nn/rnn.h"

#include "ops/compute/elementwise.h"
#include "ops/compute/promote.h"
#include "ops/declare/batch_call.h"

namespace cograd {

namespace {

struct LstmCell {
  static constexpr OpSpec spec{
      "_lstm_cell", "gates, cx", kInternal | kOther,
      "The output gate and new cells, from gates (N, 4 H) before activation and cells (N, H).",
      "T(2, 12), T(2, 3); T(1, 4), T(1, 1)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr const char* kNodeName = "LstmCellBackward0";
  static constexpr int kSaved = 2;

  static std::tuple<Tensor, Tensor> forward(Ctx<LstmCell>& ctx, const Tensor& gates,
                                            const Tensor& cx) {
    check(gates, cx);
    const DType t = computed_in(gates, cx);
    const Operand in(gates, t), c(cx, t);
    const Tensor o = empty(cx.sizes(), t), cell = empty(cx.sizes(), t);
    kernels::lstm_cell(t,
                       {rows_of(cx), cx.size(-1), in.bytes(), c.bytes(), o.bytes(), cell.bytes()});
    ctx.save(gates, cx);
    return {raw_cast(o, gates.dtype()), raw_cast(cell, promote_types(gates.dtype(), cx.dtype()))};
  }
  static void batch(BatchCall& c) {
    auto [o, cell] = apply<LstmCell>(c.physical_expanded(c.arg(0).tensor()),
                                     c.physical_expanded(c.arg(1).tensor()));
    const int64_t level = c.level().id;
    box(c.out(), std::tuple(make_batched(o, 0, level), make_batched(cell, 0, level)));
  }
  static void backward(Ctx<LstmCell>& ctx, std::span<Tensor> gs) {
    const Tensor gates = ctx.saved(0), cx = ctx.saved(1);
    const DType t = computed_in(gates, cx);
    const Tensor go = gs[0].defined() ? cast(gs[0], t) : zeros(cx.sizes(), t);
    const Tensor gc = gs[1].defined() ? cast(gs[1], t) : zeros(cx.sizes(), t);
    if (ctx.differentiated()) return composed(ctx, cast(gates, t), cast(cx, t), go, gc);
    const Operand in(gates, t), c(cx, t), to_o(go, t), to_cell(gc, t);
    const Tensor g_gates = empty(gates.sizes(), t), g_c = empty(cx.sizes(), t);
    kernels::lstm_cell_backward(t, {rows_of(cx), cx.size(-1), in.bytes(), c.bytes(), to_o.bytes(),
                                    to_cell.bytes(), g_gates.bytes(), g_c.bytes()});
    if (ctx.needs(0)) ctx.grad(0) = raw_cast(g_gates, gates.dtype());
    if (ctx.needs(1)) ctx.grad(1) = raw_cast(g_c, cx.dtype());
  }

 private:
  // A tensor converted to the kernel's dtype and layout.
  class Operand {
   public:
    Operand(const Tensor& x, DType t) : x_(raw_contiguous(raw_cast(x, t))) {}
    const void* bytes() const { return x_.bytes(); }

   private:
    Tensor x_;
  };
  static DType computed_in(const Tensor& gates, const Tensor& c) {
    return wide_dtype(promote_types(gates.dtype(), c.dtype()));
  }
  static int64_t rows_of(const Tensor& c) {
    return product(c.sizes().first(static_cast<size_t>(c.dim()) - 1));
  }
  static void composed(Ctx<LstmCell>& ctx, const Tensor& gates, const Tensor& c, const Tensor& go,
                       const Tensor& d) {
    const int64_t n = c.size(-1);
    const auto part = [&](int64_t k) { return narrow(gates, -1, k * n, n); };
    const Tensor i = sigmoid(part(0)), f = sigmoid(part(1)), g = tanh(part(2)),
                 o = sigmoid(part(3));
    if (ctx.needs(0)) {
      const Tensor parts[4] = {d * g * i * (1.0 - i), d * c * f * (1.0 - f), d * i * (1.0 - g * g),
                               go * o * (1.0 - o)};
      ctx.grad(0) = cast(cat(parts, -1), ctx.saved(0).dtype());
    }
    if (ctx.needs(1)) ctx.grad(1) = cast(d * f, ctx.saved(1).dtype());
  }
  static void check(const Tensor& gates, const Tensor& c) {
    for (const Tensor* x : {&gates, &c})
      COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(x->dtype()), "lstm_cell: not implemented for dtype ",
                                   scalar_type_name(x->dtype()), ", expected a floating one");
    Dims expected(c.sizes());
    if (!expected.empty()) expected.back() *= 4;
    COGRAD_CHECK(!expected.empty() && same(gates.sizes(), expected),
                 "lstm_cell: the cell state has shape ", to_string(c.sizes()),
                 ", expected a quarter of the gates' ", to_string(gates.sizes()));
  }
};
COGRAD_OP(LstmCell)

}  // namespace

std::tuple<Tensor, Tensor> rnn::lstm_cell(const Tensor& gates, const Tensor& c) {
  return apply<LstmCell>(gates, c);
}

}  // namespace cograd
