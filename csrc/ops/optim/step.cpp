// SPDX-License-Identifier: BSD-3-Clause
// Computes the scalars of an optimizer's rule and runs its loop over each parameter.
#include "ops/optim/step.h"

#include <algorithm>
#include <cmath>

#include "autograd/transforms/batch.h"
#include "autograd/transforms/levels.h"
#include "ops/compute/elementwise.h"
#include "ops/compute/overlap.h"

namespace cograd {
namespace {

using namespace kernels::optim_scalar;
using kernels::kOptimScalars;

// The inputs of one parameter's step; counters are read before it and written after it.
struct Plan {
  unsigned flags = 0;
  double s[kOptimScalars] = {};
  double counters[kOptimCounters] = {};
  bool single[kOptimCounters] = {};  // the counter is a float32 tensor
};

// The options that all rules have in common: maximize, weight_decay, lr.
enum : int { kMaximize, kWeightDecay, kLr, kRest };

double rounded(double v, bool single) { return single ? static_cast<float>(v) : v; }

void shrink(Plan& p, const double* o, bool decoupled) {
  p.s[kShrink] = decoupled ? 1 - o[kLr] * o[kWeightDecay] : 1;
  if (decoupled) p.flags &= ~unsigned{kernels::kOptimDecay};
}

void put(Plan& p, std::initializer_list<double> own) {
  std::copy(own.begin(), own.end(), p.s + kOwn);
}

void plan_sgd(Plan& p, const double* o) {  // momentum, dampening, nesterov
  if (o[kRest] != 0) p.flags |= kernels::kOptimMomentum;
  if (o[kRest] != 0 && o[kRest + 2] != 0) p.flags |= kernels::kOptimNesterov;
  p.s[kRate] = o[kLr];
  put(p, {o[kRest], 1 - o[kRest + 1]});
}

void plan_adam(Plan& p, const double* o) {  // beta1, beta2, eps, amsgrad, decoupled
  const double beta1 = o[kRest], beta2 = o[kRest + 1], step = p.counters[0];
  if (o[kRest + 3] != 0) p.flags |= kernels::kOptimAmsgrad;
  shrink(p, o, o[kRest + 4] != 0);
  p.s[kRate] = o[kLr] / (1 - std::pow(beta1, step));
  put(p, {1 - beta1, beta2, 1 - beta2, 1 / std::sqrt(1 - std::pow(beta2, step)), o[kRest + 2]});
}

void plan_rmsprop(Plan& p, const double* o) {  // alpha, eps, momentum, centered
  if (o[kRest + 2] > 0) p.flags |= kernels::kOptimMomentum;
  if (o[kRest + 3] != 0) p.flags |= kernels::kOptimCentered;
  p.s[kRate] = o[kLr];
  put(p, {o[kRest], 1 - o[kRest], o[kRest + 1], o[kRest + 2]});
}

void plan_adagrad(Plan& p, const double* o) {  // lr_decay, eps
  p.s[kRate] = o[kLr] / (1 + (p.counters[0] - 1) * o[kRest]);
  put(p, {o[kRest + 1]});
}

void plan_adadelta(Plan& p, const double* o) {  // rho, eps
  p.s[kRate] = o[kLr];
  put(p, {o[kRest], 1 - o[kRest], o[kRest + 1]});
}

void plan_adamax(Plan& p, const double* o) {  // beta1, beta2, eps
  p.s[kRate] = o[kLr] / (1 - std::pow(o[kRest], p.counters[0]));
  put(p, {1 - o[kRest], o[kRest + 1], o[kRest + 2]});
}

// beta1, beta2, eps, momentum_decay, decoupled; the second counter is the product of all mu.
void plan_nadam(Plan& p, const double* o) {
  const double beta1 = o[kRest], beta2 = o[kRest + 1], step = p.counters[0];
  const auto mu_at = [&](double t) { return beta1 * (1 - 0.5 * std::pow(0.96, t * o[kRest + 3])); };
  const double mu = mu_at(step), next = mu_at(step + 1);
  shrink(p, o, o[kRest + 4] != 0);
  const double product = rounded(p.counters[1] * rounded(mu, p.single[1]), p.single[1]);
  p.counters[1] = product;
  p.s[kRate] = o[kLr] * next / (1 - product * next);
  put(p, {1 - beta1, beta2, 1 - beta2, 1 / std::sqrt(1 - std::pow(beta2, step)), o[kRest + 2],
          o[kLr] * (1 - mu) / (1 - product)});
}

void plan_radam(Plan& p, const double* o) {  // beta1, beta2, eps, decoupled
  const double beta1 = o[kRest], beta2 = o[kRest + 1], step = p.counters[0];
  const double power = std::pow(beta2, step), correction = 1 - power;
  const double limit = 2 / (1 - beta2) - 1, rho = limit - 2 * step * power / correction;
  shrink(p, o, o[kRest + 3] != 0);
  p.s[kRate] = o[kLr] / (1 - std::pow(beta1, step));
  if (rho > 5) {
    p.flags |= kernels::kOptimRectified;
    p.s[kRate] *= std::sqrt(correction) *
                  std::sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho));
  }
  put(p, {1 - beta1, beta2, 1 - beta2, o[kRest + 2]});
}

void plan_rprop(Plan& p, const double* o) {  // etaminus, etaplus, smallest and largest step
  put(p, {o[kRest], o[kRest + 1], o[kRest + 2], o[kRest + 3]});
}

// lambd, alpha, t0; the counters hold eta and mu for this step, then those for the next one.
void plan_asgd(Plan& p, const double* o) {
  const double lambd = o[kRest], step = p.counters[0], eta = p.counters[1], mu = p.counters[2];
  if (mu != 1) p.flags |= kernels::kOptimAveraged;
  p.s[kShrink] = 1 - lambd * eta;
  p.s[kRate] = eta;
  put(p, {mu});
  p.counters[1] = o[kLr] / std::pow(1 + lambd * o[kLr] * step, o[kRest + 1]);
  p.counters[2] = 1 / std::max(1.0, step - o[kRest + 2]);
}

struct RuleInfo {
  size_t options;
  int counters;
  void (*plan)(Plan&, const double*);
};
constexpr RuleInfo kRules[] = {{6, 0, plan_sgd},     {8, 1, plan_adam},     {7, 1, plan_rmsprop},
                               {5, 1, plan_adagrad}, {5, 1, plan_adadelta}, {6, 1, plan_adamax},
                               {8, 2, plan_nadam},   {7, 1, plan_radam},    {7, 1, plan_rprop},
                               {6, 3, plan_asgd}};
static_assert(std::size(kRules) == static_cast<size_t>(OptimRule::kCount));

const RuleInfo& info_of(OptimRule rule, std::span<const double> options) {
  COGRAD_CHECK(rule < OptimRule::kCount, "optim_step(): unknown rule ", static_cast<int>(rule));
  const RuleInfo& info = kRules[static_cast<int>(rule)];
  COGRAD_CHECK(options.size() == info.options, "optim_step(): expected ", info.options,
               " options, got ", options.size());
  return info;
}

Plan plan_of(const RuleInfo& info, std::span<const double> options, const OptimItem& item) {
  Plan p;
  for (int i = 0; i < info.counters; ++i) {
    const Tensor& c = item.counters[i];
    p.single[i] = c.dtype() == DType::Float32;
    p.counters[i] = p.single[i] ? static_cast<double>(*c.data<float>()) : *c.data<double>();
  }
  if (info.counters > 0) p.counters[0] = rounded(p.counters[0] + 1, p.single[0]);
  p.s[kSign] = options[kMaximize] != 0 ? -1 : 1;
  p.s[kDecay] = options[kWeightDecay];
  p.s[kShrink] = 1;
  if (options[kWeightDecay] != 0) p.flags |= kernels::kOptimDecay;
  info.plan(p, options.data());
  if (item.fresh && info.plan == plan_sgd && (p.flags & kernels::kOptimMomentum) != 0)
    p.flags |= kernels::kOptimFresh;
  return p;
}

bool is_plain(const Tensor& t) { return !transformed(t) && (t->flags & kTaint) == 0; }

bool applies(const OptimItem& item, int states, int counters) {
  const DType t = item.param.dtype();
  if (!is_floating(t) && !is_complex(t)) return false;
  const auto fits = [&](const Tensor& x) {
    return x.dtype() == t && same(x.sizes(), item.param.sizes()) && is_plain(x);
  };
  bool ok = fits(item.param) && fits(item.grad);
  for (int i = 0; i < states; ++i) ok = ok && fits(item.state[i]);
  for (int i = 0; i < counters; ++i) {
    const Tensor& c = item.counters[i];
    ok = ok && c.numel() == 1 && is_plain(c) &&
         (c.dtype() == DType::Float32 || c.dtype() == DType::Float64);
  }
  return ok;
}

// Raises if a write is not allowed; false if two tensors of an item are identical.
bool check_memory(const char* op, const OptimItem& item, int states, int counters) {
  const Tensor* all[2 + kOptimState] = {&item.grad, &item.param};
  int n = 2;
  for (int i = 0; i < states; ++i) all[n++] = &item.state[i];
  bool apart = true;
  for (int i = 1; i < n; ++i) {
    check_inplace(*all[i], op, false);
    check_distinct(op, *all[i]);
    for (int k = 0; k < i; ++k) {
      if ((*all[i])->storage != (*all[k])->storage) continue;
      if (overlaps_partially(*all[i], *all[k])) fail_overlap(op);
      // The parameter may be its own gradient: every element is read before it is written.
      apart &= (k == 0 && i == 1) || !same_elements(*all[i], *all[k]) || all[i]->numel() == 0;
    }
  }
  for (int i = 0; i < counters; ++i) check_inplace(item.counters[i], op, false);
  return apart;
}

void run(OptimRule rule, const Plan& p, const OptimItem& item, int states) {
  const Tensor* all[2 + kOptimState] = {&item.param, &item.grad};
  for (int i = 0; i < states; ++i) all[2 + i] = &item.state[i];
  const DType t = item.param.dtype();
  const bool parts = is_complex(t);
  const DType real = parts ? real_dtype(t) : t;
  const int ndim = item.param.dim() + (parts ? 1 : 0);
  const int64_t size = dtype_size(real);
  SmallVec<int64_t, 64> strides(static_cast<size_t>(ndim * (2 + states)));
  Dims shape(item.param.sizes());
  if (parts) shape.push_back(2);
  kernels::Operand ops[2 + kOptimState];
  for (int k = 0; k < 2 + states; ++k) {
    int64_t* own = strides.data() + k * ndim;
    for (int d = 0; d < item.param.dim(); ++d) own[d] = all[k]->stride(d) * all[k]->itemsize();
    if (parts) own[ndim - 1] = size;
    ops[k] = {all[k]->bytes(), own};
  }
  run_loop(kernels::optim_loop(rule, p.flags, real), ndim, shape.data(), ops, 2 + states, p.s, 2);
}

void store(const Plan& p, const OptimItem& item, int counters) {
  for (int i = 0; i < counters; ++i) {
    const Tensor& c = item.counters[i];
    if (p.single[i])
      *c.data<float>() = static_cast<float>(p.counters[i]);
    else
      *c.data<double>() = p.counters[i];
    c->bump_version();
  }
}

}  // namespace

int optim_counters(OptimRule rule) noexcept {
  return rule < OptimRule::kCount ? kRules[static_cast<int>(rule)].counters : 0;
}

int optim_states(OptimRule rule, std::span<const double> options) {
  const RuleInfo& info = info_of(rule, options);
  Plan p;
  info.plan(p, options.data());
  return kernels::optim_operands(rule, p.flags) - 2;
}

bool optim_step(const char* op, OptimRule rule, std::span<OptimItem> items,
                std::span<const double> options) {
  if (thread_state.vmaps > 0 || thread_state.taint) return false;
  const RuleInfo& info = info_of(rule, options);
  const int states = optim_states(rule, options);
  for (const OptimItem& item : items)
    if (!applies(item, states, info.counters)) return false;
  for (const OptimItem& item : items)
    if (!check_memory(op, item, states, info.counters)) return false;
  for (const OptimItem& item : items) {
    const Plan p = plan_of(info, options, item);
    run(rule, p, item, states);
    store(p, item, info.counters);
    item.param->bump_version();
    for (int i = 0; i < states; ++i) item.state[i]->bump_version();
  }
  return true;
}

}  // namespace cograd
