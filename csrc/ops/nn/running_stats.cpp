// SPDX-License-Identifier: BSD-3-Clause
#include "ops/nn/running_stats.h"

#include <algorithm>

#include "autograd/transforms/batch.h"
#include "autograd/transforms/function_inputs.h"
#include "autograd/transforms/levels.h"
#include "ops/compute/overlap.h"
#include "ops/declare/constants.h"
#include "ops/declare/ops.h"

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

[[noreturn]] void fail_shared(const char* op, const char* name) {
  detail::fail(ErrorKind::Runtime, op, "(): the input has a value for each sample of a vmap, but ",
               name,
               ", which is updated in place, is the same for all. Give each sample its own (see "
               "func.stack_module_state), or use a norm without running statistics (see "
               "func.replace_all_batch_norm_modules_).");
}

bool has_any_tangent(const Tensor& x) {
  return has_tangent_here(x) || has_tangent_here(physical_tensor(x));
}

// Returns `value` without the vmap levels that `running` lacks. Under jacfwd batch elements differ
// only in tangents, and by the rounding of what computed them: by at most 1024 units of `scale`.
Tensor shared_by_samples(const char* op, const char* name, const Tensor& running, Tensor value,
                         Tensor scale) {
  const double unit = value.dtype() == DType::Float64 ? 0x1p-52 : 0x1p-23;
  while (running.defined() && is_batched(value) && batch_level(value) > batch_level(running)) {
    const Tensor all = batch_dim_first(value), first = select(all, 0, 0);
    scale = select(batch_dim_first(scale), 0, 0);
    const Tensor same = logical_or(eq(all, first), logical_and(isnan(all), isnan(first)));
    const Tensor near = le(abs(all - first), scale * (1024 * unit));
    if (autograd_ops.any_nonzero(physical_tensor(logical_not(logical_or(same, near)))))
      fail_shared(op, name);
    value = first;
  }
  return value;
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
    if (level != 0 && batch_level(*t) < level && !has_any_tangent(x))
      fail_shared(op_, t == &mean_ ? "running_mean" : "running_var");
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
  const GradGuard no_grad(false);
  if (!is_batched(mean)) return write(mean, var, count, momentum);
  const Tensor scale = abs(mean) + sqrt(var);
  const Tensor m = shared_by_samples(op_, "running_mean", mean_, mean, scale);
  const Tensor v = shared_by_samples(op_, "running_var", var_, var, square(scale));
  write(m, v, count, momentum);
}

void RunningStats::write(const Tensor& mean, const Tensor& var, int64_t count,
                         double momentum) const {
  move(mean_, mean, momentum);
  if (!var_.defined()) return;
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  move(var_, var * unbiased, momentum);
}

}  // namespace cograd
