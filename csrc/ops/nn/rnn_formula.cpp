// SPDX-License-Identifier: BSD-3-Clause
// A recurrent layer composed step by step of other ops: its backward for higher derivatives, and
// its forward for devices without a kernel for it.
#include "ops/nn/rnn.h"

namespace cograd::rnn {

namespace {

// The values that a step computed for its rows.
struct Step {
  Tensor h, c, out;                   // before the step; after it
  Tensor i, f, g, o, raw, cell, q;    // lstm: i f g o; gru: reset i, update f, new g, q; else g
  Tensor g_gates, g_state_gates, gp;  // gradients
};

class Unrolled {
 public:
  // `parts`: backward() needs the values of each gate.
  Unrolled(const Plan& plan, const Inputs& in, bool parts) : plan_(plan), in_(in), parts_(parts) {
    steps_.resize(plan.sizes.size());
    lstm_ = plan.mode == RnnMode::Lstm;
    gru_ = plan.mode == RnnMode::Gru;
    forward();
  }
  Outputs outputs() const { return {joined(&Step::out), h_, c_}; }
  Gradients backward(const Tensor& g_out, const Tensor& g_h, const Tensor& g_c);

 private:
  int64_t order(int64_t k) const { return plan_.reverse ? plan_.steps() - 1 - k : k; }
  static Tensor head(const Tensor& x, int64_t n) { return n == x.size(0) ? x : narrow(x, 0, 0, n); }
  // Returns `x` with its first rows replaced.
  static Tensor with_head(const Tensor& x, const Tensor& first) {
    const int64_t n = first.size(0);
    if (n == x.size(0)) return first;
    const Tensor parts[2] = {first, narrow(x, 0, n, x.size(0) - n)};
    return cat(parts, 0);
  }
  void forward() {
    Tensor xg = matmul_t(in_.x, in_.w_ih, false, true);
    if (in_.b_ih.defined()) xg = xg + in_.b_ih;
    Tensor h = in_.h, c = in_.c;
    for (int64_t k = 0; k < plan_.steps(); ++k) {
      const auto t = static_cast<size_t>(order(k));
      Step& s = steps_[t];
      const int64_t n = plan_.sizes[t];
      s.h = head(h, n);
      if (lstm_) s.c = head(c, n);
      Tensor hg = matmul_t(s.h, in_.w_hh, false, true);
      if (in_.b_hh.defined()) hg = hg + in_.b_hh;
      s.out = output(s, narrow(xg, 0, plan_.offsets[t], n), hg);
      h = with_head(h, s.out);
      if (lstm_) c = with_head(c, s.cell);
    }
    const bool given = plan_.steps() == 0;  // the results are not the arguments
    h_ = given ? clone(h) : h;
    c_ = given && lstm_ ? clone(c) : c;
  }
  Tensor output(Step& s, const Tensor& xg, const Tensor& hg) const {
    const int64_t n = in_.w_hh.size(0) / (lstm_ ? 4 : gru_ ? 3 : 1);
    const auto part = [&](const Tensor& x, int64_t i) { return narrow(x, -1, i * n, n); };
    if (gru_) {
      s.i = sigmoid(part(xg, 0) + part(hg, 0));
      s.f = sigmoid(part(xg, 1) + part(hg, 1));
      s.q = part(hg, 2);
      s.g = tanh(part(xg, 2) + s.i * s.q);
      return s.g + s.f * (s.h - s.g);
    }
    const Tensor gates = xg + hg;
    if (!lstm_) return s.g = plan_.mode == RnnMode::Tanh ? tanh(gates) : relu(gates);
    if (parts_) {
      s.i = sigmoid(part(gates, 0));
      s.f = sigmoid(part(gates, 1));
      s.g = tanh(part(gates, 2));
      s.o = sigmoid(part(gates, 3));
      s.cell = s.f * s.c + s.i * s.g;
    } else {
      std::tie(s.o, s.cell) = lstm_cell(gates, s.c);
    }
    s.raw = s.o * tanh(s.cell);
    return in_.w_hr.defined() ? matmul_t(s.raw, in_.w_hr, false, true) : s.raw;
  }
  // Computes the gradient of the gates and returns that of the previous state; replaces the cell's
  // gradient `gc` by the previous cell's.
  Tensor step_backward(Step& s, Tensor gh, Tensor& gc) const {
    if (in_.w_hr.defined()) {
      s.gp = gh;
      gh = matmul_t(gh, in_.w_hr, false, false);
    }
    if (lstm_) {
      const Tensor y = tanh(s.cell), d = gc + gh * s.o * (1.0 - y * y);
      const Tensor parts[4] = {d * s.g * s.i * (1.0 - s.i), d * s.c * s.f * (1.0 - s.f),
                               d * s.i * (1.0 - s.g * s.g), gh * y * s.o * (1.0 - s.o)};
      s.g_gates = s.g_state_gates = cat(parts, -1);
      gc = d * s.f;
    } else if (gru_) {
      const Tensor a = gh * (1.0 - s.f) * (1.0 - s.g * s.g);
      const Tensor r = a * s.q * s.i * (1.0 - s.i), z = gh * (s.h - s.g) * s.f * (1.0 - s.f);
      const Tensor of_input[3] = {r, z, a}, of_state[3] = {r, z, a * s.i};
      s.g_gates = cat(of_input, -1);
      s.g_state_gates = cat(of_state, -1);
      return gh * s.f + matmul_t(s.g_state_gates, in_.w_hh, false, false);
    } else {
      s.g_gates = s.g_state_gates = plan_.mode == RnnMode::Tanh
                                        ? gh * (1.0 - s.g * s.g)
                                        : gh * cast(gt(s.g, 0.0), s.g.dtype());
    }
    return matmul_t(s.g_state_gates, in_.w_hh, false, false);
  }
  // Returns an empty part, for a layer without steps: gates, states or cells.
  Tensor none_of(Tensor Step::* part) const {
    const bool gates = part == &Step::g_gates || part == &Step::g_state_gates;
    const int64_t rows = in_.w_hh.size(0);
    const int64_t width = gates ? rows : part == &Step::raw ? rows / 4 : in_.w_hh.size(1);
    return zeros(Dims{0, width}, in_.x.dtype());
  }
  // Returns a part of all steps, in the order of the rows.
  Tensor joined(Tensor Step::* part) const {
    std::vector<Tensor> all;
    for (const Step& s : steps_) all.push_back(s.*part);
    return all.empty() ? none_of(part) : cat(all, 0);
  }

  const Plan& plan_;
  const Inputs& in_;
  const bool parts_;
  std::vector<Step> steps_;
  Tensor h_, c_;  // after the last step
  bool lstm_, gru_;
};

Gradients Unrolled::backward(const Tensor& g_out, const Tensor& g_h, const Tensor& g_c) {
  Gradients r;
  Tensor gh = g_h.defined() ? g_h : zeros_like(in_.h), gc;
  if (lstm_) gc = g_c.defined() ? g_c : zeros_like(in_.c);
  for (int64_t k = plan_.steps() - 1; k >= 0; --k) {
    const auto t = static_cast<size_t>(order(k));
    const int64_t n = plan_.sizes[t];
    Tensor now = head(gh, n), cell = lstm_ ? head(gc, n) : Tensor();
    if (g_out.defined()) now = now + narrow(g_out, 0, plan_.offsets[t], n);
    gh = with_head(gh, step_backward(steps_[t], now, cell));
    if (lstm_) gc = with_head(gc, cell);
  }
  const Tensor gates = joined(&Step::g_gates), state_gates = joined(&Step::g_state_gates);
  const int64_t rows = 0;
  r.h = gh;
  r.c = gc;
  r.x = matmul_t(gates, in_.w_ih, false, false);
  r.w_ih = matmul_t(gates, in_.x, true, false);
  r.w_hh = matmul_t(state_gates, joined(&Step::h), true, false);
  if (in_.b_ih.defined()) r.b_ih = sum(gates, IntList(&rows, 1));
  if (in_.b_hh.defined()) r.b_hh = sum(state_gates, IntList(&rows, 1));
  if (in_.w_hr.defined()) r.w_hr = matmul_t(joined(&Step::gp), joined(&Step::raw), true, false);
  return r;
}

}  // namespace

Gradients differentiable_backward(const Plan& plan, const Inputs& in, const Tensor& g_out,
                                  const Tensor& g_h, const Tensor& g_c) {
  return Unrolled(plan, in, true).backward(g_out, g_h, g_c);
}

Outputs composed_forward(const Plan& plan, const Inputs& in) {
  return Unrolled(plan, in, false).outputs();
}

}  // namespace cograd::rnn
