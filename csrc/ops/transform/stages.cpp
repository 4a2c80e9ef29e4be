// SPDX-License-Identifier: BSD-3-Clause
// The list of stages.
#include "ops/declare/stages.h"

#include <algorithm>
#include <utility>

#include "autograd/modes/thread_state.h"
#include "ops/declare/transform.h"

namespace cograd {

namespace {
// In the order in which calls pass them. vmap levels come before tangents: a batched tensor itself
// has neither history nor tangents. Whoever observes calls sees those that run.
struct Entry {
  Stage stage;
  bool devices = false;  // needed only once a device besides the host is used
};
constexpr Entry kStages[] = {{sparse_stage},         {wait_stage, true}, {device_stage, true},
                             {fallback_stage, true}, {vmap_stage},       {tangent_stage},
                             {observer_stage}};
}  // namespace

void run_stages(const OpRecord& r, const CallForm& form, const Value* args, Result& out) {
  run_behind(nullptr, {r, form, args, out});
}
void run_behind(Stage last, const StagedCall& call) {
  const bool devices = device_stage_open();
  const Entry* it = kStages;
  if (last != nullptr) it = std::ranges::find(kStages, last, &Entry::stage) + 1;
  for (; it != std::end(kStages); ++it)
    if ((devices || !it->devices) && it->stage(call)) return;
  call.record.run(call.record, call.form.past_stages(), call.args, call.out);
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
