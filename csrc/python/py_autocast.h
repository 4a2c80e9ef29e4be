// SPDX-License-Identifier: BSD-3-Clause
// Autocast: ops whose declaration says so, called from Python, get their tensors in another dtype.
#pragma once
#include <cstdint>
#include <vector>

#include <pybind11/pybind11.h>

#include "ops/core/registry.h"

namespace cograd::python {

// A bit of watch_modes (autograd/watch.h): some thread is under autocast.
inline constexpr uint32_t kWatchAutocast = 256;

// The arguments of one call as autocast wants them; keeps what it made until the call is over.
class AutocastArguments {
 public:
  // `given` itself where this thread is not under autocast, or the op has no rule.
  const Value* of(const OpRecord& r, const Value* given);

 private:
  std::vector<Value> values_;
  std::vector<Tensor> made_;
  std::vector<std::vector<Tensor>> lists_;
};

void init_autocast(pybind11::module_& m);

}  // namespace cograd::python
