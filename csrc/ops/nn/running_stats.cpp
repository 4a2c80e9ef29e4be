// SPDX-License-Identifier: BSD-3-Clause
#include "ops/nn/running_stats.h"

#include <algorithm>

#include "ops/compute/overlap.h"
#include "ops/declare/constants.h"
#include "ops/declare/ops.h"
#include "transforms/batch.h"
#include "transforms/function_inputs.h"
#include "transforms/levels.h"

namespace cograd {

namespace {

void check_no_tangent(const char* op, const Tensor& t, const char* name) {
  COGRAD_CHECK(!t.defined() || !(has_tangent_here(t) || has_tangent_here(physical_tensor(t))), op,
               "(): ", name,
               " has a forward gradient (a tangent), which the result would lose. Detach it, "
               "or compute the formula with other ops.");
}

void move(const Tensor& running, const Tensor& value, double momentum) {
  if (!running.defined()) return;
  const MayWrite scope(running);  // torch also writes statistics captured by a transformed function
  const GradGuard no_grad(false);
  copy_(running, cast(running * (1 - momentum) + value * momentum, running.dtype()));
}

}  // namespace

RunningStats::RunningStats(const char* op, const Tensor& mean, const Tensor& var)
    : op_(op), mean_(mean), var_(var) {
  check_constant("native_batch_norm", mean, "running_mean");
  check_constant("native_batch_norm", var, "running_var");
  check_no_tangent(op, mean, "running_mean");
  check_no_tangent(op, var, "running_var");
}

void RunningStats::check_writable(const Tensor& x) const {
  const GradGuard no_grad(false);
  for (const Tensor* t : {&mean_, &var_}) {
    if (!t->defined()) continue;
    const LevelId level = is_batched(x) ? batch_level(x) : 0;
    COGRAD_CHECK(level == 0 || (is_batched(*t) && batch_level(*t) >= level), op_,
                 "(): the input has a value for each sample of a vmap, but ",
                 t == &mean_ ? "running_mean" : "running_var",
                 ", which is updated in place, is the same for all. Give each sample its own (see "
                 "func.stack_module_state), or use a norm without running statistics (see "
                 "func.replace_all_batch_norm_modules_).");
    const MayWrite scope(*t);
    check_inplace(physical_tensor(*t), op_, false);
    check_distinct(op_, physical_tensor(*t));
  }
}

bool RunningStats::lack_samples_of(const Tensor& w, const Tensor& b) const noexcept {
  const LevelId level = std::max(batch_level(w), batch_level(b));
  return (mean_.defined() && batch_level(mean_) < level) ||
         (var_.defined() && batch_level(var_) < level);
}

void RunningStats::update(const Tensor& mean, const Tensor& var, int64_t count,
                          double momentum) const {
  move(mean_, mean, momentum);
  if (!var_.defined()) return;
  const GradGuard no_grad(false);
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  move(var_, var * unbiased, momentum);
}

}  // namespace cograd
