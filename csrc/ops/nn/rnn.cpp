// SPDX-License-Identifier: BSD-3-Clause
// Recurrent networks: _rnn_layer is one layer in one direction; _rnn combines layers and
// directions.
#include "ops/nn/rnn.h"
#include "ops/compute/pointers.h"
#include "ops/declare/autocast.h"

#include "ops/compute/elementwise.h"
#include "ops/compute/host_values.h"
#include "ops/random/fill.h"
#include "tensor/backend.h"

namespace cograd {

namespace {

using kernels::RnnMode;

int64_t gates_of(RnnMode mode) { return mode == RnnMode::Lstm ? 4 : mode == RnnMode::Gru ? 3 : 1; }

RnnMode mode_of(int64_t mode) {
  COGRAD_CHECK(mode >= 0 && mode <= 3, "rnn: mode is ", mode, ", expected 0 to 3");
  return static_cast<RnnMode>(mode);
}

void check_matrix_of(const char* name, const Tensor& t, int64_t rows, int64_t cols, DType dtype) {
  COGRAD_CHECK(t.defined() && t.dim() == 2 && t.size(0) == rows && t.size(1) == cols, "rnn: ", name,
               " has shape ", t.defined() ? to_string(t.sizes()) : std::string("None"),
               ", expected [", rows, ", ", cols, "]");
  COGRAD_CHECK(t.dtype() == dtype, "rnn: ", name, " has dtype ", scalar_type_name(t.dtype()),
               ", expected that of the input, ", scalar_type_name(dtype));
}
void check_bias(const char* name, const Tensor& t, int64_t n, DType dtype) {
  if (!t.defined()) return;
  COGRAD_CHECK(t.dim() == 1 && t.size(0) == n && t.dtype() == dtype, "rnn: ", name, " has shape ",
               to_string(t.sizes()), " and dtype ", scalar_type_name(t.dtype()), ", expected [", n,
               "] and ", scalar_type_name(dtype));
}

// Splits rows [total, I] into steps of `sizes` rows, or of `batch` rows if `sizes` is undefined.
rnn::Plan plan_of(RnnMode mode, bool reverse, int64_t total, int64_t batch, const Tensor& sizes) {
  rnn::Plan p;
  p.mode = mode;
  p.reverse = reverse;
  p.batch = batch;
  if (sizes.defined()) {
    COGRAD_CHECK(sizes.dim() == 1 && sizes.dtype() == DType::Int64,
                 "rnn: batch_sizes must be a 1-d int64 tensor");
    p.sizes = host_values<int64_t>(raw_contiguous(sizes));
  } else if (batch > 0) {
    COGRAD_CHECK(total % batch == 0, "rnn: ", total, " rows are not a multiple of the batch size ",
                 batch);
    p.sizes.assign(static_cast<size_t>(total / batch), batch);
  }
  int64_t at = 0, limit = batch;
  for (const int64_t n : p.sizes) {
    COGRAD_CHECK(n > 0 && n <= limit && n <= total - at, "rnn: batch_sizes has ", n, " after ",
                 limit, ", expected positive numbers that do not increase and add up to ", total);
    p.offsets.push_back(at);
    at += n;
    limit = n;
  }
  COGRAD_CHECK(at == total, "rnn: batch_sizes add up to ", at, ", expected ", total);
  return p;
}

Tensor widened(const Tensor& x, DType t) {
  return x.defined() ? raw_contiguous(raw_cast(x, t)) : x;
}
Tensor matrix(int64_t rows, int64_t cols, DType t) {
  const int64_t sizes[2] = {rows, cols};
  return empty(sizes, t);
}
Tensor copy_of(const Tensor& x, DType t) {
  Tensor out = empty(x.sizes(), t);
  raw_copy(out, x);
  return out;
}

struct RnnLayer {
  static constexpr OpSpec spec{
      "_rnn_layer",
      "input, hx, w_ih, w_hh, mode, reverse, batch_sizes=None, cx=None, b_ih=None, b_hh=None, "
      "w_hr=None",
      kInternal | kOther | kAutocastLow,
      "One recurrent layer in one direction over the rows of input (total, I): outputs (total, P), "
      "last states (batch, P) and cells (batch, H). mode: 0 tanh, 1 relu, 2 lstm, 3 gru.",
      "T(6, 3), T(2, 4), T(4, 3), T(4, 4), 0, False, None, None, T(4), T(4); "
      "T(6, 3), T(2, 4), T(16, 3), T(16, 4), 2, True, None, T(2, 4), T(16), T(16); "
      "T(6, 3), T(2, 2), T(16, 3), T(16, 2), 2, False, None, T(2, 4), T(16), T(16), T(2, 4); "
      "T(6, 3), T(2, 4), T(12, 3), T(12, 4), 3, False, None, None, T(12), T(12)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr const char* kNodeName = "RnnLayerBackward0";
  static constexpr int kSaved = 12;
  struct State {
    rnn::Plan plan;
  };
  enum Slot { kX, kH, kC, kWIh, kWHh, kBIh, kBHh, kWHr, kGates, kCells, kRaw, kOut };

  static std::tuple<Tensor, Tensor, Tensor> forward(Ctx<RnnLayer>& ctx, const Tensor& x,
                                                    const Tensor& hx, const Tensor& w_ih,
                                                    const Tensor& w_hh, int64_t mode_number,
                                                    bool reverse, const Tensor& batch_sizes,
                                                    const Tensor& cx, const Tensor& b_ih,
                                                    const Tensor& b_hh, const Tensor& w_hr) {
    const RnnMode mode = mode_of(mode_number);
    const rnn::Inputs in{x, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr};
    check(mode, in);
    const DType t = x.dtype() == DType::Float64 ? t64() : DType::Float32;
    rnn::Plan plan = plan_of(mode, reverse, x.size(0), hx.size(0), batch_sizes);
    const int64_t total = x.size(0), hidden = w_hh.size(0) / gates_of(mode), width = w_hh.size(1);
    const bool lstm = mode == RnnMode::Lstm, gru = mode == RnnMode::Gru;
    const Tensor gates = projected(mode, in, t);
    const Tensor cells = lstm || gru ? matrix(total, hidden, t) : Tensor();
    const Tensor raw = w_hr.defined() ? matrix(total, hidden, t) : Tensor();
    Tensor out = matrix(total, width, t);
    Tensor h = copy_of(hx, t), c = lstm ? copy_of(cx, t) : matrix(0, hidden, t);
    const Tensor whh = widened(w_hh, t), whr = widened(w_hr, t);
    const Tensor bn =
        gru && b_hh.defined() ? widened(narrow(b_hh, 0, 2 * hidden, hidden), t) : Tensor();
    kernels::rnn_forward(t, steps_of(plan, whh, whr, bn),
                         {bytes_or_null(gates), bytes_or_null(cells), bytes_or_null(raw),
                          out.bytes(), h.bytes(), c.bytes()});
    if (ctx.recording()) {
      ctx->plan = std::move(plan);
      // Except for oneDNN's LSTM, torch's layers are products that save views of the weights.
      const bool given = lstm && !w_hr.defined() && x.dtype() != DType::Float64;
      const auto kept = [&](const Tensor& w) { return given || !w.defined() ? w : fixed_view(w); };
      ctx.save(x, hx, cx, kept(w_ih), kept(w_hh), kept(b_ih), kept(b_hh), kept(w_hr), gates, cells,
               raw);
    }
    Tensor y = raw_cast(out, x.dtype());
    if (t == x.dtype())
      ctx.save_output(y);
    else
      ctx.save(out);
    return {y, raw_cast(h, x.dtype()), raw_cast(c, lstm ? cx.dtype() : x.dtype())};
  }

  // Computes the same by recorded ops.
  static std::tuple<Tensor, Tensor, Tensor> by_ops(const rnn::Inputs& given, RnnMode mode,
                                                   bool reverse, const Tensor& batch_sizes) {
    check(mode, given);
    const DType t = wide_dtype(given.x.dtype());
    rnn::Inputs in = given;
    cast_all(in, t);
    const rnn::Plan plan = plan_of(mode, reverse, in.x.size(0), in.h.size(0), batch_sizes);
    const rnn::Outputs r = rnn::composed_forward(plan, in);
    const Tensor none = zeros(Dims{0, in.h.size(1)}, t);
    return {cast(r.out, given.x.dtype()), cast(r.h, given.x.dtype()),
            in.c.defined() ? cast(r.c, given.c.dtype()) : none};
  }

  static void backward(Ctx<RnnLayer>& ctx, std::span<Tensor> gs) {
    rnn::Inputs in;
    Tensor* all[] = {&in.x, &in.h, &in.c, &in.w_ih, &in.w_hh, &in.b_ih, &in.b_hh, &in.w_hr};
    for (int i = 0; i <= kWHr; ++i) *all[i] = ctx.saved(i);
    for (int i = kWIh; i <= kWHr; ++i)
      if (all[i]->defined()) check_fixed_view(ctx.node(), *all[i]);
    if (!gs[0].defined() && !gs[1].defined() && !gs[2].defined()) return;
    const bool lstm = ctx->plan.mode == RnnMode::Lstm;
    const Tensor gc = lstm ? gs[2] : Tensor();
    const rnn::Gradients r = ctx.differentiated() ? composed(ctx->plan, in, gs[0], gs[1], gc)
                                                  : fused(ctx, in, gs[0], gs[1], gc);
    const Tensor given[] = {r.x,    r.h,    r.w_ih, r.w_hh, Tensor(), lstm ? r.c : Tensor(),
                            r.b_ih, r.b_hh, r.w_hr};
    for (size_t i = 0; i < std::size(given); ++i)
      if (given[i].defined() && ctx.needs(i)) ctx.grad(i) = given[i];
  }

 private:
  static constexpr DType t64() { return DType::Float64; }
  static void check(RnnMode mode, const rnn::Inputs& in) {
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(in.x.dtype()), "rnn: not implemented for dtype ",
                                 scalar_type_name(in.x.dtype()), ", expected a floating one");
    COGRAD_CHECK(in.x.dim() == 2 && in.h.defined() && in.h.dim() == 2 && in.w_hh.defined() &&
                     in.w_hh.dim() == 2,
                 "rnn: expected rows of input, states and weights with two dims");
    const DType t = in.x.dtype();
    const int64_t rows = in.w_hh.size(0), gates = gates_of(mode), width = in.w_hh.size(1);
    COGRAD_CHECK(rows % gates == 0, "rnn: w_hh has ", rows, " rows, expected a multiple of ",
                 gates);
    const int64_t hidden = rows / gates, batch = in.h.size(0);
    COGRAD_CHECK(in.w_hr.defined() ? mode == RnnMode::Lstm : width == hidden,
                 "rnn: w_hh has shape ", to_string(in.w_hh.sizes()), ", expected ", hidden,
                 " columns");
    check_matrix_of("w_ih", in.w_ih, rows, in.x.size(1), t);
    check_matrix_of("w_hh", in.w_hh, rows, width, t);
    check_matrix_of("the state", in.h, batch, width, t);
    if (mode == RnnMode::Lstm) {
      // With a projection, autocast leaves torch's cell state in the wide dtype.
      const bool wide = in.w_hr.defined() && in.c.defined() && in.c.dtype() == wide_dtype(t);
      check_matrix_of("the cell state", in.c, batch, hidden, wide ? in.c.dtype() : t);
    }
    if (in.w_hr.defined()) check_matrix_of("w_hr", in.w_hr, width, hidden, t);
    check_bias("b_ih", in.b_ih, rows, t);
    check_bias("b_hh", in.b_hh, rows, t);
  }
  // Returns the input's product with its weights, plus all biases except the one in gru's reset
  // gate.
  static Tensor projected(RnnMode mode, const rnn::Inputs& in, DType t) {
    const GradGuard no_grad(false);
    const Tensor out = matmul_t(widened(in.x, t), widened(in.w_ih, t), false, true);
    Tensor bias = widened(in.b_ih, t);
    if (in.b_hh.defined()) {
      Tensor more = widened(in.b_hh, t);
      if (mode == RnnMode::Gru) {
        const int64_t n = more.size(0) / 3, rest[1] = {n};
        const Tensor parts[2] = {narrow(more, 0, 0, 2 * n), raw_full(rest, t, 0)};
        more = cat(parts, 0);
      }
      bias = bias.defined() ? bias + more : more;
    }
    return bias.defined() ? out + bias : out;
  }
  static kernels::RnnSteps steps_of(const rnn::Plan& p, const Tensor& w_hh, const Tensor& w_hr,
                                    const Tensor& b_hn) {
    kernels::RnnSteps s{};
    s.mode = p.mode;
    s.reverse = p.reverse;
    s.steps = p.steps();
    s.batch = p.batch;
    s.hidden = w_hh.size(0) / gates_of(p.mode);
    s.width = w_hh.size(1);
    s.sizes = p.sizes.data();
    s.offsets = p.offsets.data();
    s.w_hh = w_hh.bytes();
    s.w_hr = bytes_or_null(w_hr);
    s.b_hn = bytes_or_null(b_hn);
    return s;
  }
  static Tensor in_dtype(const Tensor& x, DType t) { return x.defined() ? cast(x, t) : x; }
  static void cast_all(rnn::Inputs& in, DType t) {
    for (Tensor* x : {&in.x, &in.h, &in.c, &in.w_ih, &in.w_hh, &in.b_ih, &in.b_hh, &in.w_hr})
      *x = in_dtype(*x, t);
  }
  static rnn::Gradients composed(const rnn::Plan& plan, rnn::Inputs in, const Tensor& g_out,
                                 const Tensor& g_h, const Tensor& g_c) {
    const DType own = in.x.dtype(), of_c = in.c.defined() ? in.c.dtype() : own;
    const DType t = wide_dtype(own);  // 16-bit dtypes in float32, as the kernel
    if (t == own) return rnn::differentiable_backward(plan, in, g_out, g_h, g_c);
    cast_all(in, t);
    rnn::Gradients r = rnn::differentiable_backward(plan, in, in_dtype(g_out, t), in_dtype(g_h, t),
                                                    in_dtype(g_c, t));
    for (Tensor* g : {&r.x, &r.h, &r.w_ih, &r.w_hh, &r.b_ih, &r.b_hh, &r.w_hr})
      *g = in_dtype(*g, own);
    r.c = in_dtype(r.c, of_c);
    return r;
  }
  static rnn::Gradients fused(Ctx<RnnLayer>& ctx, const rnn::Inputs& in, const Tensor& g_out,
                              const Tensor& g_h, const Tensor& g_c) {
    const rnn::Plan& plan = ctx->plan;
    const Tensor gates = ctx.saved(kGates), cells = ctx.saved(kCells), raw = ctx.saved(kRaw);
    const Tensor out = raw_contiguous(ctx.saved(kOut));
    const DType t = gates.dtype();
    const int64_t total = in.x.size(0);
    const Tensor whh = widened(in.w_hh, t), whr = widened(in.w_hr, t), g = widened(g_out, t);
    const Tensor h0 = widened(in.h, t), c0 = widened(in.c, t);
    Tensor gh = g_h.defined() ? copy_of(g_h, t) : raw_full(in.h.sizes(), t, 0), gc;
    if (plan.mode == RnnMode::Lstm)
      gc = g_c.defined() ? copy_of(g_c, t) : raw_full(in.c.sizes(), t, 0);
    const Tensor g_gates = matrix(total, gates.size(1), t);
    const Tensor g_state = plan.mode == RnnMode::Gru ? matrix(total, gates.size(1), t) : g_gates;
    const Tensor g_raw = whr.defined() ? matrix(total, out.size(1), t) : Tensor();
    const Tensor before = matrix(total, out.size(1), t);
    kernels::rnn_backward(t, steps_of(plan, whh, whr, Tensor()),
                          {gates.bytes(), bytes_or_null(cells), out.bytes(), h0.bytes(),
                           bytes_or_null(c0), bytes_or_null(g), gh.bytes(), bytes_or_null(gc),
                           g_gates.bytes(), g_state.bytes(), bytes_or_null(g_raw), before.bytes()});
    return products(ctx, in, {g_gates, g_state, g_raw, raw, before, gh, gc});
  }
  struct Parts {
    Tensor g_gates, g_state, g_raw, raw, before, gh, gc;
  };
  static rnn::Gradients products(Ctx<RnnLayer>& ctx, const rnn::Inputs& in, const Parts& p) {
    const DType t = p.g_gates.dtype(), as = in.x.dtype();
    const int64_t rows = 0;
    rnn::Gradients r;
    if (ctx.needs(0)) r.x = raw_cast(matmul_t(p.g_gates, widened(in.w_ih, t), false, false), as);
    if (ctx.needs(2)) r.w_ih = raw_cast(matmul_t(p.g_gates, widened(in.x, t), true, false), as);
    if (ctx.needs(3)) r.w_hh = raw_cast(matmul_t(p.g_state, p.before, true, false), as);
    if (in.b_ih.defined() && ctx.needs(6)) r.b_ih = raw_cast(sum(p.g_gates, IntList(&rows, 1)), as);
    if (in.b_hh.defined() && ctx.needs(7)) {
      const bool same_sum = r.b_ih.defined() && p.g_state.is(p.g_gates);
      r.b_hh = same_sum ? clone(r.b_ih) : raw_cast(sum(p.g_state, IntList(&rows, 1)), as);
    }
    if (in.w_hr.defined() && ctx.needs(8))
      r.w_hr = raw_cast(matmul_t(p.g_raw, p.raw, true, false), as);
    r.h = raw_cast(p.gh, as);
    if (p.gc.defined()) r.c = raw_cast(p.gc, in.c.dtype());
    return r;
  }
};
COGRAD_OP(RnnLayer)

struct Rnn {
  static constexpr OpSpec spec{
      "_rnn",
      "input, hx, params, mode, has_biases, num_layers, dropout, train, bidirectional, "
      "batch_first, batch_sizes=None, cx=None",
      kInternal | kOther | kAutocastLow,
      "Layers and directions of _rnn_layer over input (L, N, I), or (total, I) with batch_sizes: "
      "outputs, last states and cells. params: as in torch.lstm.",
      "T(3, 2, 3), T(1, 2, 4), [T(4, 3), T(4, 4), T(4), T(4)], 0, True, 1, 0.0, False, False, "
      "False; T(2, 3, 3), T(2, 2, 4), [T(16, 3), T(16, 4), T(16, 3), T(16, 4)], 2, False, 1, 0.0, "
      "False, True, True, None, T(2, 2, 4)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& input, const Tensor& hx,
                                                    TensorList params, int64_t mode,
                                                    bool has_biases, int64_t layers, double dropout,
                                                    bool train, bool bidirectional,
                                                    bool batch_first, const Tensor& batch_sizes,
                                                    const Tensor& cx) {
    const bool packed = batch_sizes.defined(), lstm = mode_of(mode) == RnnMode::Lstm;
    const int64_t directions = bidirectional ? 2 : 1;
    check(input, packed, hx, cx, layers, directions, lstm);
    const size_t each = weights_of(params.size(), has_biases, layers * directions, lstm);
    Tensor x = !packed && batch_first ? transpose(input, 0, 1) : input;
    const int64_t steps = x.size(0), batch = hx.size(1);
    COGRAD_CHECK(packed || x.size(1) == batch, "rnn: the state is for ", batch,
                 " samples, expected ", packed ? batch : x.size(1));
    const int64_t flat[2] = {packed ? steps : steps * x.size(1), x.size(-1)};
    if (!packed) x = reshape(x, flat);
    std::vector<Tensor> hs, cs;
    for (int64_t l = 0; l < layers; ++l) {
      std::vector<Tensor> outs;
      for (int64_t d = 0; d < directions; ++d) {
        const int64_t i = l * directions + d;
        const Tensor* w = params.data() + static_cast<size_t>(i) * each;
        const Tensor none;
        const rnn::Inputs in{x,
                             select(hx, 0, i),
                             lstm ? select(cx, 0, i) : none,
                             w[0],
                             w[1],
                             has_biases ? w[2] : none,
                             has_biases ? w[3] : none,
                             each % 2 == 1 ? w[each - 1] : none};
        // Composed of no steps, a layer without rows would record nothing.
        const auto [y, h, c] = x.size(0) == 0 || place_has_kernel("rnn_forward")
                                   ? apply<RnnLayer>(x, in.h, in.w_ih, in.w_hh, mode, d == 1,
                                                     batch_sizes, in.c, in.b_ih, in.b_hh, in.w_hr)
                                   : RnnLayer::by_ops(in, mode_of(mode), d == 1, batch_sizes);
        outs.push_back(y);
        hs.push_back(h);
        cs.push_back(c);
      }
      x = directions == 1 ? outs[0] : cat(outs, -1);
      if (dropout > 0 && train && l + 1 < layers) x = dropped(x, dropout);
    }
    if (!packed) {
      const int64_t whole[3] = {steps, batch, x.size(1)};
      x = view(x, whole);
      if (batch_first) x = transpose(x, 0, 1);
    }
    // The layer saves its output for backward. In torch, writing to the output is allowed for RNN
    // and GRU but not for LSTM, so only those get a copy.
    if (!lstm && directions == 1 && requires_grad(x)) x = clone(x);
    return {x, joined(hs), lstm ? joined(cs) : cs[0]};
  }

 private:
  static Tensor joined(const std::vector<Tensor>& states) {
    return states.size() == 1 ? unsqueeze(states[0], 0) : stack(states, 0);
  }
  static Tensor dropped(const Tensor& x, double p) {
    const Tensor keep = empty(x.sizes(), x.dtype());
    fill_bernoulli(keep, nullptr, 1 - p);
    return x * (p < 1 ? div(keep, 1 - p) : keep);
  }
  static size_t weights_of(size_t given, bool biases, int64_t parts, bool lstm) {
    const size_t plain = biases ? 4 : 2, count = static_cast<size_t>(parts);
    const bool projected = lstm && given == count * (plain + 1);
    COGRAD_CHECK(projected || given == count * plain, "rnn: got ", given, " params, expected ",
                 count * plain);
    return projected ? plain + 1 : plain;
  }
  static void check(const Tensor& x, bool packed, const Tensor& h, const Tensor& c, int64_t layers,
                    int64_t directions, bool lstm) {
    COGRAD_CHECK(x.dim() == (packed ? 2 : 3), "rnn: input must have ", packed ? 2 : 3,
                 " dimensions, got ", x.dim());
    COGRAD_CHECK(layers > 0 && layers < (int64_t{1} << 30), "rnn: num_layers is ", layers,
                 ", expected a positive number");
    COGRAD_CHECK(h.defined() && h.dim() == 3 && h.size(0) == layers * directions,
                 "rnn: the state must have shape (", layers * directions, ", batch, size)");
    if (lstm)
      COGRAD_CHECK(c.defined() && c.dim() == 3 && c.size(0) == h.size(0) && c.size(1) == h.size(1),
                   "rnn: the cell state must have shape (", h.size(0), ", ", h.size(1), ", size)");
  }
};
COGRAD_OP(Rnn)

}  // namespace

}  // namespace cograd
