// SPDX-License-Identifier: BSD-3-Clause
// Stages: what stands in front of every op. A stage is a function in a file of its own and an entry
// of the list in stages.cpp. While none is open, a call pays one load for all of them.
#pragma once
#include "ops/declare/registry.h"

namespace cograd {

struct StagedCall {
  const OpRecord& record;  // need not be in the table
  const CallForm& form;
  const Value* args;
  Result& out;  // for the plain form
};
// Calls f(parameter, tensor) for each defined tensor argument.
template <class F>
void each_tensor(const OpRecord& r, const Value* args, F&& f) {
  for (size_t i = 0; i < r.args.size(); ++i) {
    if (args[i].has_tensor())
      f(i, args[i].tensor());
    else if (args[i].kind == COGRAD_TENSORS)
      for (const Tensor& t : args[i].tensors())
        if (t.defined()) f(i, t);
  }
}

// Returns true if it has run the call. Otherwise the call goes on to the next stage.
using Stage = bool (*)(const StagedCall& call);

// Raises for a call with sparse tensors: cograd.sparse handles the ops that exist for these before
// the core sees them (sparse_stage.cpp).
bool sparse_stage(const StagedCall& call);
void check_no_sparse(const OpRecord& r, const Value* args);
// Notes the op's name for errors about waits for a GPU (running_op, tensor/backend.h), which occur
// in kernels that do not know it (wait_stage.cpp).
bool wait_stage(const StagedCall& call);
// Runs the call on the device of its tensors (device_stage.cpp).
bool device_stage(const StagedCall& call);
// Runs the call on the host, if a kernel that it needs is missing on the device (fallback.cpp).
bool fallback_stage(const StagedCall& call);
// Runs the stages behind `last`, or all of them if it is null, and then the op.
void run_behind(Stage last, const StagedCall& call);
// Runs a call with batched tensors by the op's batching rule (batching.cpp).
bool vmap_stage(const StagedCall& call);
// Computes the tangents of the results, if an argument has one (tangents.cpp).
bool tangent_stage(const StagedCall& call);
// Tells this thread's observer of the call (stages.cpp).
bool observer_stage(const StagedCall& call);

// Sees every call of an op on its thread, as it runs: with plain tensors, behind all transforms.
class CallObserver {
 public:
  virtual void saw(const OpRecord& r, const CallForm& form, const Value* args) = 0;

 protected:
  ~CallObserver() = default;
};
// Makes `observer` the one of this thread, in its scope.
class COGRAD_API ObserveCalls {
 public:
  explicit ObserveCalls(CallObserver& observer) noexcept;
  ~ObserveCalls();
  ObserveCalls(const ObserveCalls&) = delete;
  ObserveCalls& operator=(const ObserveCalls&) = delete;

 private:
  CallObserver* outer_;
};

}  // namespace cograd
