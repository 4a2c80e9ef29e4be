// SPDX-License-Identifier: BSD-3-Clause
// The ops of optimizers' steps: each computes the scalars of its rule in kernels/optim.
#include <cmath>

#include "ops/optim/step.h"

namespace cograd {
namespace {

constexpr const char* kNoSamples = "none: tests/optim compares them with the formulas in Python";

struct SgdStep : StepOp {
  static constexpr OpSpec spec{
      "_sgd_step",
      "params, grads, momentum_buffer, *, lr, momentum, dampening, weight_decay, nesterov, "
      "maximize, created=[]",
      kFlags,
      "Runs a step of optim.SGD; `created` has the positions, in order, of the parameters whose "
      "momentum_buffer was created for this step.",
      kNoSamples};
  static constexpr const char* kSubject = "SGD.step";
  static bool forward(TensorList params, TensorList grads, TensorList momentum_buffer, double lr,
                      double momentum, double dampening, double weight_decay, bool nesterov,
                      bool maximize, IntList created) {
    StepCall call = step_call<SgdStep>(maximize, weight_decay, params, grads);
    if (momentum != 0) call.keep(momentum_buffer);
    auto next = created.begin();
    return call.run([&](StepPlan& p, size_t i) {
      p.set(kernels::kOptimMomentum, momentum != 0);
      p.set(kernels::kOptimNesterov, momentum != 0 && nesterov);
      while (next != created.end() && *next < static_cast<int64_t>(i)) ++next;
      const bool fresh = next != created.end() && *next == static_cast<int64_t>(i);
      p.set(kernels::kOptimFresh, momentum != 0 && fresh);
      p.rate(lr);
      p.own({momentum, 1 - dampening});
    });
  }
};
COGRAD_STEP(SgdStep)

struct AdamStep : StepOp {
  static constexpr OpSpec spec{
      "_adam_step",
      "params, grads, exp_avg, exp_avg_sq, max_exp_avg_sq, step, *, lr, beta1, beta2, eps, "
      "weight_decay, amsgrad, decoupled_weight_decay, maximize",
      kFlags, "Runs a step of optim.Adam or optim.AdamW.", kNoSamples};
  static constexpr const char* kSubject = "Adam.step";
  static bool forward(TensorList params, TensorList grads, TensorList exp_avg,
                      TensorList exp_avg_sq, TensorList max_exp_avg_sq, TensorList step, double lr,
                      double beta1, double beta2, double eps, double weight_decay, bool amsgrad,
                      bool decoupled_weight_decay, bool maximize) {
    StepCall call = step_call<AdamStep>(maximize, weight_decay, params, grads);
    call.count_anywhere(step);
    call.keep(exp_avg);
    call.keep(exp_avg_sq);
    if (amsgrad) call.keep(max_exp_avg_sq);
    return call.run([&](StepPlan& p, size_t) {
      p.set(kernels::kOptimAmsgrad, amsgrad);
      if (decoupled_weight_decay) p.decouple(lr, weight_decay);
      p.corrected_rate(lr, beta1);
      p.own({1 - beta1, beta2, 1 - beta2, p.root_correction(beta2), eps});
    });
  }
};
COGRAD_STEP(AdamStep)

struct RmsPropStep : StepOp {
  static constexpr OpSpec spec{
      "_rmsprop_step",
      "params, grads, square_avg, grad_avg, momentum_buffer, step, *, lr, alpha, eps, "
      "weight_decay, momentum, centered, maximize",
      kFlags, "Runs a step of optim.RMSprop.", kNoSamples};
  static constexpr const char* kSubject = "RMSprop.step";
  static bool forward(TensorList params, TensorList grads, TensorList square_avg,
                      TensorList grad_avg, TensorList momentum_buffer, TensorList step, double lr,
                      double alpha, double eps, double weight_decay, double momentum, bool centered,
                      bool maximize) {
    StepCall call = step_call<RmsPropStep>(maximize, weight_decay, params, grads);
    call.count_anywhere(step);
    call.keep(square_avg);
    if (centered) call.keep(grad_avg);
    if (momentum > 0) call.keep(momentum_buffer);
    return call.run([&](StepPlan& p, size_t) {
      p.set(kernels::kOptimMomentum, momentum > 0);
      p.set(kernels::kOptimCentered, centered);
      p.rate(lr);
      p.own({alpha, 1 - alpha, eps, momentum});
    });
  }
};
COGRAD_STEP(RmsPropStep)

struct AdagradStep : StepOp {
  static constexpr OpSpec spec{
      "_adagrad_step", "params, grads, sum, step, *, lr, lr_decay, weight_decay, eps, maximize",
      kFlags, "Runs a step of optim.Adagrad.", kNoSamples};
  static constexpr const char* kSubject = "Adagrad.step";
  static bool forward(TensorList params, TensorList grads, TensorList sum, TensorList step,
                      double lr, double lr_decay, double weight_decay, double eps, bool maximize) {
    StepCall call = step_call<AdagradStep>(maximize, weight_decay, params, grads);
    call.count(step);
    call.keep(sum);
    return call.run([&](StepPlan& p, size_t) {
      p.rate(lr / (1 + (p.counters[0] - 1) * lr_decay));
      p.own({eps});
    });
  }
};
COGRAD_STEP(AdagradStep)

struct AdadeltaStep : StepOp {
  static constexpr OpSpec spec{
      "_adadelta_step",
      "params, grads, square_avg, acc_delta, step, *, lr, rho, eps, weight_decay, maximize", kFlags,
      "Runs a step of optim.Adadelta.", kNoSamples};
  static constexpr const char* kSubject = "Adadelta.step";
  static bool forward(TensorList params, TensorList grads, TensorList square_avg,
                      TensorList acc_delta, TensorList step, double lr, double rho, double eps,
                      double weight_decay, bool maximize) {
    StepCall call = step_call<AdadeltaStep>(maximize, weight_decay, params, grads);
    call.count_anywhere(step);
    call.keep(square_avg);
    call.keep(acc_delta);
    return call.run([&](StepPlan& p, size_t) {
      p.rate(lr);
      p.own({rho, 1 - rho, eps});
    });
  }
};
COGRAD_STEP(AdadeltaStep)

struct AdamaxStep : StepOp {
  static constexpr OpSpec spec{
      "_adamax_step",
      "params, grads, exp_avg, exp_inf, step, *, lr, beta1, beta2, eps, weight_decay, maximize",
      kFlags, "Runs a step of optim.Adamax.", kNoSamples};
  static constexpr const char* kSubject = "Adamax.step";
  static bool forward(TensorList params, TensorList grads, TensorList exp_avg, TensorList exp_inf,
                      TensorList step, double lr, double beta1, double beta2, double eps,
                      double weight_decay, bool maximize) {
    StepCall call = step_call<AdamaxStep>(maximize, weight_decay, params, grads);
    call.count_anywhere(step);
    call.keep(exp_avg);
    call.keep(exp_inf);
    return call.run([&](StepPlan& p, size_t) {
      p.corrected_rate(lr, beta1);
      p.own({1 - beta1, beta2, eps});
    });
  }
};
COGRAD_STEP(AdamaxStep)

struct NAdamStep : StepOp {
  static constexpr OpSpec spec{
      "_nadam_step",
      "params, grads, exp_avg, exp_avg_sq, step, mu_product, *, lr, beta1, beta2, eps, "
      "weight_decay, momentum_decay, decoupled_weight_decay, maximize",
      kFlags, "Runs a step of optim.NAdam.", kNoSamples};
  static constexpr const char* kSubject = "NAdam.step";
  static bool forward(TensorList params, TensorList grads, TensorList exp_avg,
                      TensorList exp_avg_sq, TensorList step, TensorList mu_product, double lr,
                      double beta1, double beta2, double eps, double weight_decay,
                      double momentum_decay, bool decoupled_weight_decay, bool maximize) {
    StepCall call = step_call<NAdamStep>(maximize, weight_decay, params, grads);
    call.count(step);
    call.count(mu_product);
    call.keep(exp_avg);
    call.keep(exp_avg_sq);
    const auto mu_at = [&](double t) {
      return beta1 * (1 - 0.5 * std::pow(0.96, t * momentum_decay));
    };
    return call.run([&](StepPlan& p, size_t) {
      const double t = p.counters[0], mu = mu_at(t), next = mu_at(t + 1);
      if (decoupled_weight_decay) p.decouple(lr, weight_decay);
      const double product = p.rounded(1, p.counters[1] * p.rounded(1, mu));
      p.counters[1] = product;
      p.rate(lr * next / (1 - product * next));
      p.own({1 - beta1, beta2, 1 - beta2, 1 / std::sqrt(1 - std::pow(beta2, t)), eps,
             lr * (1 - mu) / (1 - product)});
    });
  }
};
COGRAD_STEP(NAdamStep)

struct RAdamStep : StepOp {
  static constexpr OpSpec spec{
      "_radam_step",
      "params, grads, exp_avg, exp_avg_sq, step, *, lr, beta1, beta2, eps, weight_decay, "
      "decoupled_weight_decay, maximize",
      kFlags, "Runs a step of optim.RAdam.", kNoSamples};
  static constexpr const char* kSubject = "RAdam.step";
  static bool forward(TensorList params, TensorList grads, TensorList exp_avg,
                      TensorList exp_avg_sq, TensorList step, double lr, double beta1, double beta2,
                      double eps, double weight_decay, bool decoupled_weight_decay, bool maximize) {
    StepCall call = step_call<RAdamStep>(maximize, weight_decay, params, grads);
    call.count(step);
    call.keep(exp_avg);
    call.keep(exp_avg_sq);
    return call.run([&](StepPlan& p, size_t) {
      const double t = p.counters[0], power = std::pow(beta2, t), correction = 1 - power;
      const double limit = 2 / (1 - beta2) - 1, rho = limit - 2 * t * power / correction;
      if (decoupled_weight_decay) p.decouple(lr, weight_decay);
      double rate = lr / (1 - std::pow(beta1, t));
      if (rho > 5) {
        p.set(kernels::kOptimRectified, true);
        rate *= std::sqrt(correction) *
                std::sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho));
      }
      p.rate(rate);
      p.own({1 - beta1, beta2, 1 - beta2, eps});
    });
  }
};
COGRAD_STEP(RAdamStep)

struct RpropStep : StepOp {
  static constexpr OpSpec spec{
      "_rprop_step",
      "params, grads, prev, step_size, step, *, etaminus, etaplus, step_size_min, step_size_max, "
      "maximize",
      kFlags, "Runs a step of optim.Rprop.", kNoSamples};
  static constexpr const char* kSubject = "Rprop.step";
  static bool forward(TensorList params, TensorList grads, TensorList prev, TensorList step_size,
                      TensorList step, double etaminus, double etaplus, double step_size_min,
                      double step_size_max, bool maximize) {
    StepCall call = step_call<RpropStep>(maximize, 0, params, grads);
    call.count_anywhere(step);
    call.keep(prev);
    call.keep(step_size);
    return call.run(
        [&](StepPlan& p, size_t) { p.own({etaminus, etaplus, step_size_min, step_size_max}); });
  }
};
COGRAD_STEP(RpropStep)

struct AsgdStep : StepOp {
  static constexpr OpSpec spec{
      "_asgd_step",
      "params, grads, ax, step, eta, mu, *, lr, lambd, alpha, t0, weight_decay, maximize", kFlags,
      "Runs a step of optim.ASGD.", kNoSamples};
  static constexpr const char* kSubject = "ASGD.step";
  static bool forward(TensorList params, TensorList grads, TensorList ax, TensorList step,
                      TensorList eta, TensorList mu, double lr, double lambd, double alpha,
                      double t0, double weight_decay, bool maximize) {
    StepCall call = step_call<AsgdStep>(maximize, weight_decay, params, grads);
    call.count(step);
    call.count(eta);
    call.count(mu);
    call.keep(ax);
    return call.run([&](StepPlan& p, size_t) {
      const double t = p.counters[0], rate = p.counters[1], weight = p.counters[2];
      p.set(kernels::kOptimAveraged, weight != 1);
      p.shrink(1 - lambd * rate);
      p.rate(rate);
      p.own({weight});
      p.counters[1] = lr / std::pow(1 + lambd * lr * t, alpha);
      p.counters[2] = 1 / std::max(1.0, t - t0);
    });
  }
};
COGRAD_STEP(AsgdStep)

}  // namespace
}  // namespace cograd
