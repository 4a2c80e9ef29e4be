// SPDX-License-Identifier: BSD-3-Clause
// The list of stages.
#include "ops/declare/stages.h"

#include <utility>

#include "autograd/modes/thread_state.h"
#include "ops/declare/transform.h"

namespace cograd {

namespace {
// In the order in which calls pass them. vmap levels come before tangents: a batched tensor itself
// has neither history nor tangents. Whoever observes calls sees those that run.
constexpr Stage kStages[] = {sparse_stage, device_stage,  fallback_stage,
                             vmap_stage,   tangent_stage, observer_stage};
}  // namespace

void run_stages(const OpRecord& r, const CallForm& form, const Value* args, Result& out) {
  const StagedCall call{r, form, args, out};
  for (const Stage stage : kStages)
    if (stage(call)) return;
  if (may_lack_kernels(thread_place.now)) [[unlikely]]
    return run_or_fall_back(call);
  r.run(r, form.past_stages(), args, out);
}

void ChangedArguments::call(Result& out) const { run_stages(r_, kPlainCall, values_.data(), out); }

bool observer_stage(const StagedCall& call) {
  if (thread_state.observer != nullptr)
    thread_state.observer->saw(call.record, call.form, call.args);
  return false;
}

ObserveCalls::ObserveCalls(CallObserver& observer) noexcept
    : outer_(std::exchange(thread_state.observer, &observer)) {
  open_stages.fetch_add(1, std::memory_order_relaxed);
}
ObserveCalls::~ObserveCalls() {
  thread_state.observer = outer_;
  open_stages.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace cograd
