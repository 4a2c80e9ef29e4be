// SPDX-License-Identifier: BSD-3-Clause
// Autocast: converts the tensor arguments of ops called from Python to the dtype that the op's
// declaration requests.
#pragma once
#include <cstdint>
#include <vector>

#include <pybind11/pybind11.h>

#include "ops/declare/registry.h"

namespace cograd::python {

// The bit of watch_modes (autograd/modes/watch.h) that is set while some thread is under autocast.
inline constexpr uint32_t kWatchAutocast = 256;

// Casts the arguments of one call for autocast and keeps the casts alive until the call ends.
class AutocastArguments {
 public:
  // Returns `given` itself if this thread is not under autocast or the op has no rule.
  const Value* of(const OpRecord& r, const Value* given);

 private:
  std::vector<Value> values_;
  std::vector<Tensor> made_;
  std::vector<std::vector<Tensor>> lists_;
};

void init_autocast(pybind11::module_& m);

}  // namespace cograd::python
