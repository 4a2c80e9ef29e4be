// SPDX-License-Identifier: BSD-3-Clause
// The stage that names ops in errors about waits for a GPU, and finds tensors whose values a
// capture holds back.
#include <string>

#include "ops/declare/fallback.h"
#include "ops/declare/op.h"
#include "ops/declare/stages.h"
#include "tensor/backend.h"

namespace cograd {

namespace {

void check_operands(const StagedCall& call) {
  const auto check = [](const Tensor& t) {
    if (Backend* const b = backend_of(t->device.type)) b->check_operand(*t->storage);
  };
  each_tensor(call.record, call.args, [&](size_t, const Tensor& t) { check(t); });
  if (call.form.target != nullptr) check(*call.form.target);
}

}  // namespace

bool wait_stage(const StagedCall& call) {
  if (!waits_need_names() || running_op() != nullptr) [[likely]]
    return false;
  const OpRecord& r = call.record;
  const std::string name =
      r.foreign != nullptr ? foreign_facts.name(*r.foreign) : std::string(r.spec.name);
  const RunningOp running(name.c_str());
  if (capture_open()) check_operands(call);
  run_behind(wait_stage, call);
  return true;
}

}  // namespace cograd
