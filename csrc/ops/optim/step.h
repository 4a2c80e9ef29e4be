// SPDX-License-Identifier: BSD-3-Clause
// Holds what the ops of optimizers' steps share. Each op updates many parameters by one rule;
// steps.cpp declares the ops.
#pragma once
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "kernels/optim/optim.h"
#include "ops/declare/batch_call.h"

namespace cograd {

// The scalars of one parameter's step; counters are read before it and written after it.
struct StepPlan {
  static constexpr int kCounters = 3;  // one-element tensors: the step, then the rule's own

  unsigned flags = 0;
  double s[kernels::kOptimScalars] = {};
  double counters[kCounters] = {};
  bool single[kCounters] = {};  // the counter is a float32 tensor
  kernels::OptimCount count;    // with a counter: it stays on the device, and counters[0] is unset

  void set(unsigned flag, bool on) noexcept { flags |= on ? flag : 0; }
  void rate(double v) noexcept { s[kernels::optim_scalar::kRate] = v; }
  // Sets a rate that is divided by 1 - beta^step.
  void corrected_rate(double v, double beta) noexcept {
    count.beta1 = beta;
    rate(count.counter != nullptr ? v : v / (1 - std::pow(beta, counters[0])));
  }
  // Returns 1 / sqrt(1 - beta^step), which is the rule's own scalar 3.
  double root_correction(double beta) noexcept {
    count.beta2 = beta;
    return count.counter != nullptr ? 1 : 1 / std::sqrt(1 - std::pow(beta, counters[0]));
  }
  // Scales the parameter first.
  void shrink(double v) noexcept { s[kernels::optim_scalar::kShrink] = v; }
  // Scales the parameter by weight decay instead of adding the decay to the gradient.
  void decouple(double lr, double weight_decay) noexcept {
    shrink(1 - lr * weight_decay);
    flags &= ~unsigned{kernels::kOptimDecay};
  }
  // Sets the rule's own scalars.
  void own(std::initializer_list<double> v) noexcept {
    std::copy(v.begin(), v.end(), s + kernels::optim_scalar::kOwn);
  }
  // Rounds a value of counter i as its tensor does.
  double rounded(int i, double v) const noexcept { return single[i] ? static_cast<float>(v) : v; }
};

// A call of a step: lists with one tensor for each parameter.
class StepCall {
 public:
  // `subject` starts error messages: "Adam.step".
  StepCall(const char* subject, const kernels::OptimRule& rule, bool maximize, double weight_decay,
           TensorList params, TensorList grads)
      : subject_(subject),
        rule_(rule),
        maximize_(maximize),
        weight_decay_(weight_decay),
        size_(params.size()) {
    keep(params);
    keep(grads);
  }
  // Add a list that the step writes: tensors of the parameter's size, or one-element tensors.
  // Raise if it does not have a tensor for each parameter.
  void keep(TensorList list) { operands_[num_operands_++] = checked(list); }
  void count(TensorList list) { counters_[num_counters_++] = checked(list); }
  // Does what count() does, for a rule whose scalars depend on the step by corrected_rate() and
  // root_correction() alone: a counter on a GPU stays there.
  void count_anywhere(TensorList list) {
    count(list);
    anywhere_ = true;
  }
  // Updates every parameter in one pass over its memory; plan(StepPlan&, size_t i) sets the scalars
  // of parameter i. Returns false without changes if the loops do not apply (transforms, dtypes
  // that differ or have no loop). Raises before the first write if a tensor must not be written.
  template <class Plan>
  bool run(Plan plan) const {
    return run_erased([](void* f, StepPlan& p, size_t i) { (*static_cast<Plan*>(f))(p, i); },
                      &plan);
  }

 private:
  using ErasedPlan = void (*)(void*, StepPlan&, size_t);
  bool run_erased(ErasedPlan plan, void* context) const;
  const Tensor* checked(TensorList list) const;
  // The steps of run(), for parameter i.
  bool applies(size_t i) const;
  bool check_memory(size_t i) const;
  void begin(size_t i, StepPlan& p) const;
  void update(size_t i, const StepPlan& p) const;
  // Number of dims of its loop: complex numbers are two real ones, in a dim of their own.
  int dims_of(size_t i) const;
  // Returns the loop; sets its operands, whose strides it writes to `strides`.
  kernels::LoopFn loop_of(size_t i, const StepPlan& p, int64_t* strides,
                          kernels::Operand* ops) const;
  void finish(size_t i, const StepPlan& p) const;
  // True if no parameter's step touches what another one's writes.
  bool independent() const;
  // Updates all parameters by one call of the kernel, which a GPU runs by few launches.
  void run_together(ErasedPlan plan, void* context) const;

  const char* subject_;
  const kernels::OptimRule& rule_;
  bool maximize_, anywhere_ = false;
  double weight_decay_;
  size_t size_;
  const Tensor*
      operands_[kernels::kOptimOperands];  // of the loop: parameters, gradients, lists of state
  const Tensor* counters_[StepPlan::kCounters];
  int num_operands_ = 0, num_counters_ = 0;
};

// Finds the rule of the op "_adam_step": "adam". Raises if there is none.
const kernels::OptimRule& step_rule(std::string_view op);

// The members that the ops have in common. Their order of parameters: params, grads, lists of
// state, and after the star the options.
struct StepOp {
  static constexpr OpFlags kFlags = kInternal | kNondiff | kOther | kNoCpp;
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static constexpr BatchRule kBatch{};  // transforms see the call; batch() handles it
  static void batch(BatchCall& call) { box(call.out(), false); }  // the formula in Python runs
};

template <class Op>
StepCall step_call(bool maximize, double weight_decay, TensorList params, TensorList grads) {
  static const kernels::OptimRule& rule = step_rule(Op::spec.name);
  return {Op::kSubject, rule, maximize, weight_decay, params, grads};
}

// Adds an op to the table; marks every list of tensors but the gradients as written.
template <class Op>
bool add_step() {
  OpRecord* r = detail::make_record<Op>();
  for (size_t i = 0; i < r->args.size(); ++i)
    r->args[i].mutated = r->args[i].kind == ArgKind::Tensors && i != 1;
  return add_record(r);
}
#define COGRAD_STEP(Op) \
  [[maybe_unused]] static const bool cograd_registered_##Op = ::cograd::add_step<Op>();

}  // namespace cograd
