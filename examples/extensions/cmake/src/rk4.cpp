// SPDX-License-Identifier: BSD-3-Clause
// Steps of a predator-prey system with the classic Runge-Kutta method, and its exact adjoint:
//   y0' = a y0 - b y0 y1,  y1' = d y0 y1 - c y1.
#include <cograd/extension.h>

#include <array>

using cograd::Tensor;
using cograd::autograd::AutogradContext;
using cograd::autograd::Function;
using cograd::autograd::variable_list;

namespace {

using State = std::array<double, 2>;
using Rates = std::array<double, 4>;  // a, b, c, d

State slope(const State& y, const Rates& p) {
  return {p[0] * y[0] - p[1] * y[0] * y[1], p[3] * y[0] * y[1] - p[2] * y[1]};
}
// Adds the product of g and the derivatives of slope at y to gy and gp.
void slope_adjoint(const State& y, const Rates& p, const State& g, State& gy, Rates& gp) {
  gy[0] += g[0] * (p[0] - p[1] * y[1]) + g[1] * p[3] * y[1];
  gy[1] += -g[0] * p[1] * y[0] + g[1] * (p[3] * y[0] - p[2]);
  gp[0] += g[0] * y[0];
  gp[1] -= g[0] * y[0] * y[1];
  gp[2] -= g[1] * y[1];
  gp[3] += g[1] * y[0] * y[1];
}
State plus(const State& y, double h, const State& k) { return {y[0] + h * k[0], y[1] + h * k[1]}; }

// Makes one step; stores the four points at which the slope was computed in `at`.
State step(const State& y, const Rates& p, double h, std::array<State, 4>& at) {
  at[0] = y;
  const State k1 = slope(at[0], p);
  at[1] = plus(y, h / 2, k1);
  const State k2 = slope(at[1], p);
  at[2] = plus(y, h / 2, k2);
  const State k3 = slope(at[2], p);
  at[3] = plus(y, h, k3);
  const State k4 = slope(at[3], p);
  State out;
  for (size_t i = 0; i < 2; ++i) out[i] = y[i] + h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
  return out;
}
// Returns the gradient before a step from the gradient after it.
State step_adjoint(const State& y, const Rates& p, double h, const State& g, Rates& gp) {
  std::array<State, 4> at;
  step(y, p, h, at);
  State gy = g;
  State later{};  // gradient of the point of the next slope
  constexpr double kWeight[4] = {1, 2, 2, 1};
  const double reach[4] = {h / 2, h / 2, h, 0};  // factor of slope i in point i + 1
  for (int i = 3; i >= 0; --i) {
    const auto s = static_cast<size_t>(i);
    State gk;
    for (size_t j = 0; j < 2; ++j) gk[j] = h / 6 * kWeight[i] * g[j] + reach[i] * later[j];
    later = {};
    slope_adjoint(at[s], p, gk, later, gp);
    for (size_t j = 0; j < 2; ++j) gy[j] += later[j];
  }
  return gy;
}

// Maps y [batch, 2] and rates [4] to the trajectory [steps + 1, batch, 2].
struct Rk4 : Function<Rk4> {
  static constexpr bool once_differentiable = true;

  static Tensor forward(AutogradContext* ctx, const Tensor& y, const Tensor& rates, double dt,
                        int64_t steps) {
    COGRAD_CHECK_VALUE(y.dim() == 2 && y.size(1) == 2, "y is ", y.summary(), ", expected [n, 2]");
    COGRAD_CHECK_VALUE(rates.dim() == 1 && rates.size(0) == 4, "rates are ", rates.summary(),
                       ", expected [4]");
    COGRAD_CHECK_VALUE(steps > 0, "steps is ", steps, ", expected a positive number");
    Tensor path = cograd::empty({steps + 1, y.size(0), 2}, y.options());
    const auto out = path.accessor<double, 3>();
    const auto start = y.accessor<double, 2>();
    const Rates p = rates_of(rates);
    cograd::parallel_for(0, y.size(0), 64, [&](int64_t begin, int64_t end) {
      std::array<State, 4> at;
      for (int64_t n = begin; n < end; ++n) {
        State s = {start[n][0], start[n][1]};
        for (int64_t t = 0; t <= steps; ++t) {
          out[t][n][0] = s[0];
          out[t][n][1] = s[1];
          if (t < steps) s = step(s, p, dt, at);
        }
      }
    });
    ctx->save_for_backward({path, rates});
    ctx->saved_data["dt"] = dt;
    return path;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto path = saved[0].accessor<double, 3>();
    const auto g = grads[0].accessor<double, 3>();
    const Rates p = rates_of(saved[1]);
    const double dt = ctx->saved_data["dt"].to_double();
    Tensor dy = cograd::empty({path.size(1), 2}, saved[0].options()),
           dp = cograd::zeros_like(saved[1]);
    const auto out = dy.accessor<double, 2>();
    Rates gp{};
    for (int64_t n = 0; n < path.size(1); ++n) {
      const int64_t last = path.size(0) - 1;
      State gy = {g[last][n][0], g[last][n][1]};
      for (int64_t t = last - 1; t >= 0; --t) {
        gy = step_adjoint({path[t][n][0], path[t][n][1]}, p, dt, gy, gp);
        for (size_t j = 0; j < 2; ++j) gy[j] += g[t][n][static_cast<int64_t>(j)];
      }
      out[n][0] = gy[0];
      out[n][1] = gy[1];
    }
    const auto rates = dp.accessor<double, 1>();
    for (int64_t i = 0; i < 4; ++i) rates[i] = gp[static_cast<size_t>(i)];
    return {dy, dp, Tensor(), Tensor()};
  }

 private:
  static Rates rates_of(const Tensor& t) {
    const auto a = t.accessor<double, 1>();
    return {a[0], a[1], a[2], a[3]};
  }
};

}  // namespace

COGRAD_LIBRARY(rk4, m) {
  m.def<Rk4>("rk4", "y, rates, dt, steps=1", "The trajectory, [steps + 1, n, 2].");
}
