// SPDX-License-Identifier: BSD-3-Clause
// Checks the tensors of an optimizer's step and runs its loop over each parameter.
#include "ops/optim/step.h"

#include "autograd/transforms/levels.h"
#include "ops/compute/elementwise.h"
#include "ops/compute/overlap.h"

namespace cograd {
namespace {

using namespace kernels::optim_scalar;

constexpr int kMaxOperands = 2 + StepCall::kStates;

bool is_plain(const Tensor& t) { return !transformed(t) && (t->flags & kTaint) == 0; }

}  // namespace

struct StepCall::Item {
  const Tensor *param, *grad;
  const Tensor* counters[StepPlan::kCounters];
  const Tensor* states[kStates];
};

StepCall::StepCall(const char* subject, const kernels::OptimRule& rule, bool maximize,
                   double weight_decay, TensorList params, TensorList grads)
    : subject_(subject),
      rule_(rule),
      maximize_(maximize),
      weight_decay_(weight_decay),
      params_(params),
      grads_(checked(grads)) {}

TensorList StepCall::checked(TensorList list) const {
  COGRAD_CHECK(list.size() == params_.size(), subject_, "(): a list has ", list.size(),
               " tensors, expected one for each of the ", params_.size(), " parameters");
  return list;
}

void StepCall::count(TensorList list) { counters_[num_counters_++] = checked(list); }
void StepCall::keep(TensorList list) { states_[num_states_++] = checked(list); }

StepCall::Item StepCall::item(size_t i) const noexcept {
  Item item{&params_[i], &grads_[i], {}, {}};
  for (int k = 0; k < num_counters_; ++k) item.counters[k] = &counters_[k][i];
  for (int k = 0; k < num_states_; ++k) item.states[k] = &states_[k][i];
  return item;
}

bool StepCall::applies(const Item& item) const {
  if (!item.param->defined()) return false;
  const DType t = item.param->dtype();
  if (!is_floating(t) && !is_complex(t)) return false;
  const auto fits = [&](const Tensor& x) {
    return x.defined() && x.dtype() == t && same(x.sizes(), item.param->sizes()) && is_plain(x);
  };
  bool ok = fits(*item.param) && fits(*item.grad);
  for (int i = 0; i < num_states_; ++i) ok = ok && fits(*item.states[i]);
  for (int i = 0; i < num_counters_; ++i) {
    const Tensor& c = *item.counters[i];
    ok = ok && c.defined() && c.numel() == 1 && is_plain(c) &&
         (c.dtype() == DType::Float32 || c.dtype() == DType::Float64);
  }
  return ok;
}

// Raises if a write is not allowed; false if two tensors of an item are identical.
bool StepCall::check_memory(const Item& item) const {
  const Tensor* all[kMaxOperands] = {item.grad, item.param};
  int n = 2;
  for (int i = 0; i < num_states_; ++i) all[n++] = item.states[i];
  bool apart = true;
  for (int i = 1; i < n; ++i) {
    check_inplace(*all[i], subject_, false);
    check_distinct(subject_, *all[i]);
    for (int k = 0; k < i; ++k) {
      if ((*all[i])->storage != (*all[k])->storage) continue;
      if (overlaps_partially(*all[i], *all[k])) fail_overlap(subject_);
      // The parameter may be its own gradient: every element is read before it is written.
      apart &= (k == 0 && i == 1) || !same_elements(*all[i], *all[k]) || all[i]->numel() == 0;
    }
  }
  for (int i = 0; i < num_counters_; ++i) check_inplace(*item.counters[i], subject_, false);
  return apart;
}

// Returns a plan with the counters of this step and the scalars that all rules share.
StepPlan StepCall::begin(const Item& item) const {
  StepPlan p;
  for (int i = 0; i < num_counters_; ++i) {
    const Tensor& t = *item.counters[i];
    p.single[i] = t.dtype() == DType::Float32;
    p.counters[i] = p.single[i] ? static_cast<double>(*t.data<float>()) : *t.data<double>();
  }
  if (num_counters_ > 0) p.counters[0] = p.rounded(0, p.counters[0] + 1);
  p.s[kSign] = maximize_ ? -1 : 1;
  p.s[kDecay] = weight_decay_;
  p.set(kernels::kOptimDecay, weight_decay_ != 0);
  p.shrink(1);
  return p;
}

void StepCall::update(const StepPlan& p, const Item& item) const {
  const int n = 2 + num_states_;
  COGRAD_CHECK(rule_.variants[p.flags].operands == n, subject_, "(): expected ",
               rule_.variants[p.flags].operands - 2, " lists of state, got ", num_states_);
  const Tensor* all[kMaxOperands] = {item.param, item.grad};
  for (int i = 0; i < num_states_; ++i) all[2 + i] = item.states[i];
  const DType t = item.param->dtype();
  const bool parts = is_complex(t);
  const DType real = parts ? real_dtype(t) : t;
  const int ndim = item.param->dim() + (parts ? 1 : 0);
  const int64_t size = dtype_size(real);
  SmallVec<int64_t, 64> strides(static_cast<size_t>(ndim * n));
  Dims shape(item.param->sizes());
  if (parts) shape.push_back(2);
  kernels::Operand ops[kMaxOperands];
  for (int k = 0; k < n; ++k) {
    int64_t* own = strides.data() + k * ndim;
    for (int d = 0; d < item.param->dim(); ++d) own[d] = all[k]->stride(d) * all[k]->itemsize();
    if (parts) own[ndim - 1] = size;
    ops[k] = {all[k]->bytes(), own};
  }
  run_loop(kernels::optim_loop(rule_, p.flags, real), ndim, shape.data(), ops, n, p.s, 2);
}

void StepCall::store(const StepPlan& p, const Item& item) const {
  for (int i = 0; i < num_counters_; ++i) {
    const Tensor& c = *item.counters[i];
    if (p.single[i])
      *c.data<float>() = static_cast<float>(p.counters[i]);
    else
      *c.data<double>() = p.counters[i];
    c->bump_version();
  }
  (*item.param)->bump_version();
  for (int i = 0; i < num_states_; ++i) (*item.states[i])->bump_version();
}

const kernels::OptimRule& step_rule(std::string_view op) {
  std::string_view name = op;
  COGRAD_CHECK(name.starts_with('_') && name.ends_with("_step"), "op '", op,
               "': expected a name like _adam_step");
  name.remove_prefix(1);
  name.remove_suffix(5);
  const kernels::OptimRule* rule = kernels::optim_rule(name);
  COGRAD_CHECK(rule != nullptr, "op '", op, "': kernels/optim/optim_loops.cpp has no rule '", name,
               "'");
  return *rule;
}

bool StepCall::run_erased(ErasedPlan plan, void* context) const {
  if (thread_state.vmaps > 0 || thread_state.taint) return false;
  for (size_t i = 0; i < params_.size(); ++i)
    if (!applies(item(i))) return false;
  for (size_t i = 0; i < params_.size(); ++i)
    if (!check_memory(item(i))) return false;
  for (size_t i = 0; i < params_.size(); ++i) {
    const Item one = item(i);
    StepPlan p = begin(one);
    plan(context, p, i);
    update(p, one);
    store(p, one);
  }
  return true;
}

}  // namespace cograd
