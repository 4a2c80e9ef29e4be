// SPDX-License-Identifier: BSD-3-Clause
// out= of ops with several results.
#include "ops/core/out.h"

#include "ops/core/op.h"

namespace cograd {

void call_into(const OpRecord& r, TensorList outs, const Value* args) {
  bool any_grad = false;
  for (size_t i = 0; i < r.args.size(); ++i)
    if (args[i].has_tensor()) any_grad |= requires_grad(args[i].tensor());
  for (const Tensor& t : outs) detail::check_out(r.spec.name, t, any_grad);
  GradGuard no_grad(false);
  Result result;
  r.call(args, result);
  if (result.kind == Result::Kind::Tensor) result.tensors.push_back(std::move(result.tensor));
  COGRAD_CHECK_TYPE(result.tensors.size() == outs.size(), r.spec.name, "(): out= has ", outs.size(),
                    " tensors, expected ", result.tensors.size());
  for (size_t i = 0; i < outs.size(); ++i) {
    detail::finish_target(r.spec, outs[i], result.tensors[i], false);
    outs[i]->bump_version();
  }
}

}  // namespace cograd
