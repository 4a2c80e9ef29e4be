// SPDX-License-Identifier: BSD-3-Clause
// Implements out= for ops with several results.
#include "ops/declare/out.h"

#include "ops/compute/resize.h"
#include "ops/declare/op.h"

namespace cograd {

void call_into(const OpRecord& r, TensorList outs, const Value* args) {
  if (stages_open()) {
    const DeviceStage stage(r, args, outs);
    if (stage.needed()) {
      const PlaceGuard here(stage.device());
      return call_into(r, outs, stage.args());
    }
  }
  bool any_grad = false;
  for (size_t i = 0; i < r.args.size(); ++i) {
    if (args[i].has_tensor()) any_grad |= requires_grad(args[i].tensor());
    if (args[i].kind != COGRAD_TENSORS) continue;
    for (const Tensor& t : args[i].tensors()) any_grad |= requires_grad(t);
  }
  if (transforms_open()) check_transformed_out(r, outs, args);
  detail::check_outs(r.spec, outs, {args, r.args.size()}, any_grad);
  GradGuard no_grad(false);
  Result result;
  r.call(args, result);
  if (result.kind == Result::Kind::Tensor) result.tensors.push_back(std::move(result.tensor));
  COGRAD_CHECK_TYPE(result.tensors.size() == outs.size(), r.spec.name, "(): out= has ", outs.size(),
                    " tensors, expected ", result.tensors.size());
  // Check all of them before writing any.
  const auto fits = [&](size_t i) { return same(outs[i].sizes(), result.tensors[i].sizes()); };
  for (size_t i = 1; i < outs.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      COGRAD_CHECK(outs[i]->storage != outs[k]->storage || (fits(i) && fits(k)), r.spec.name,
                   "(): tensors ", k, " and ", i,
                   " of out= share memory and would refer to a single memory location when "
                   "resized");
  for (size_t i = 0; i < outs.size(); ++i) {
    detail::check_result(r.spec, outs[i], result.tensors[i].dtype(), true);
    check_growth(r.spec.name, outs[i], result.tensors[i].sizes());
  }
  for (size_t i = 0; i < outs.size(); ++i) resize_out(r.spec.name, outs[i], result.tensors[i]);
  for (size_t i = 0; i < outs.size(); ++i) {
    detail::finish_target(r.spec, outs[i], result.tensors[i], false);
    outs[i]->bump_version();
  }
}

}  // namespace cograd
