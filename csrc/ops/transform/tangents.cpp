// SPDX-License-Identifier: BSD-3-Clause
// The stage of forward mode: which level's tangents a call carries, and writes in place.
#include <algorithm>

#include "ops/compute/elementwise.h"
#include "ops/declare/changed_arguments.h"
#include "ops/declare/ops.h"
#include "ops/declare/stages.h"
#include "ops/transform/batching.h"
#include "ops/transform/forward_mode.h"
#include "tensor/sparse.h"
#include "transforms/function_scope.h"

namespace cograd {

namespace {

std::shared_ptr<TangentLevel> highest_level(const OpRecord& r, const Value* args) {
  std::shared_ptr<TangentLevel> highest;
  if (thread_state.inference) return highest;
  each_tensor(r, args, [&](size_t, const Tensor& t) {
    if (!transformed(t)) return;
    std::shared_ptr<TangentLevel> level = tangent_level(t);
    if (level != nullptr && (highest == nullptr || level->id() > highest->id()))
      highest = std::move(level);
  });
  return highest;
}

bool recorded(const Tensor& t) {
  if (!t.defined()) return false;
  if (requires_grad(t)) return true;
  if (!transformed(t)) return false;
  for (const auto& level : entered_levels())
    if (level->id() < thread_state.max_visible_level && recorded(tangent_of(t, level->id())))
      return true;
  return false;
}

bool any_recorded(const OpRecord& r, const Value* args) {
  bool any = false;
  each_tensor(r, args, [&](size_t, const Tensor& t) { any = any || recorded(t); });
  return any;
}

// Computes the values with the plain op, then writes the tangents in place.
void write_with_tangents(const OpRecord& r, const Tensor& self, const Value* args,
                         const std::shared_ptr<TangentLevel>& level) {
  ChangedArguments changed(r, args);
  if (thread_state.grad_enabled && any_recorded(r, args)) {
    const Tensor before = autograd_ops.clone(self);  // saved tensors must outlive the write
    for (size_t i = 0; i < r.args.size(); ++i)
      if (args[i].has_tensor() && args[i].tensor().is(self)) changed.set(i, before);
  }
  Result result;
  changed.call(result);
  const bool tracked =
      thread_state.grad_enabled && (requires_grad(self) || requires_grad(result.tensor));
  check_inplace(self, r.spec.name, tracked);
  {
    const GradGuard record(tracked);
    detail::finish_target(r.spec, self, result.tensor, true, true);
  }
  if (!tracked) self->bump_version();
  if (!is_differentiable(self.dtype())) return;
  for (std::shared_ptr<TangentLevel> at = level; at != nullptr;) {
    const LevelsBelow mask(at->id());
    const bool known = is_differentiable(result.tensor.dtype());
    write_tangent(self, at, known ? tangent_of(result.tensor, at->id()) : Tensor());
    std::shared_ptr<TangentLevel> next = tangent_level(result.tensor);
    std::shared_ptr<TangentLevel> own = tangent_level(self);
    at = own != nullptr && (next == nullptr || own->id() > next->id()) ? own : next;
  }
}

}  // namespace

bool tangent_stage(const StagedCall& call) {
  const OpRecord& r = call.record;
  // The ops of a composition have tangent rules; a foreign op handles its tangents itself.
  if (r.foreign != nullptr || call.form.form == Form::Out) return false;
  if (r.composite && (call.form.form == Form::Plain || !r.looped)) return false;
  const auto level = highest_level(r, call.args);
  if (level == nullptr) return false;
  if (call.form.form == Form::Plain)
    call_with_tangents(r, call.form, call.args, call.out, level);
  else
    write_with_tangents(r, *call.form.target, call.args, level);
  return true;
}

void check_transformed_out(const OpRecord& r, TensorList outs, const Value* args) {
  check_no_sparse(r, args);
  for (const Tensor& t : outs) check_not_sparse(t, "an operation with out=");
  const bool draws = (r.spec.flags & kKindMask) == kRandom && thread_state.vmaps > 0;
  const bool samples = draws || highest_batch_level(r, args) != 0 ||
                       std::any_of(outs.begin(), outs.end(), [](auto& t) { return is_batched(t); });
  COGRAD_CHECK_NOT_IMPLEMENTED(!samples, "vmap: ", r.spec.name,
                               "() with out= is not possible inside of a vmap: call it without "
                               "out=, which returns a result for each sample.");
  const bool tangents =
      !thread_state.inference &&
      (highest_level(r, args) != nullptr ||
       std::any_of(outs.begin(), outs.end(), [](auto& t) { return tangent_level(t) != nullptr; }));
  COGRAD_CHECK_NOT_IMPLEMENTED(
      !tangents, "Trying to use forward AD with ", r.spec.name,
      "_out that does not support it because it is an out= function: call ", r.spec.name,
      " without out=, or detach() the arguments.");
}

}  // namespace cograd
