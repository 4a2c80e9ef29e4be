// SPDX-License-Identifier: BSD-3-Clause
// The stage that names ops in errors about waits for a GPU.
#include <string>

#include "ops/declare/fallback.h"
#include "ops/declare/op.h"
#include "ops/declare/stages.h"
#include "tensor/backend.h"

namespace cograd {

bool wait_stage(const StagedCall& call) {
  if (!waits_need_names() || running_op() != nullptr) [[likely]]
    return false;
  const OpRecord& r = call.record;
  const std::string name =
      r.foreign != nullptr ? foreign_facts.name(*r.foreign) : std::string(r.spec.name);
  const RunningOp running(name.c_str());
  run_behind(wait_stage, call);
  return true;
}

}  // namespace cograd
