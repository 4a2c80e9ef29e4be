// SPDX-License-Identifier: BSD-3-Clause
// Signal handlers are Python code that may run within a backward run: not in the run's modes.
#pragma once
#include "autograd/levels.h"

namespace cograd::python {

// What the engine and the ops change on this thread while they work.
struct HandlerModes {
  bool grad_enabled, inference, taint, looked_at;
  LevelId ceiling;
  const TensorSet* wanted;

  static HandlerModes here() noexcept;
  void set() const noexcept;
};

// Python calls a backward run on this thread: handlers get the modes of now until it ends.
class BackwardCaller {
 public:
  BackwardCaller() noexcept;
  ~BackwardCaller();
  BackwardCaller(const BackwardCaller&) = delete;
  BackwardCaller& operator=(const BackwardCaller&) = delete;

 private:
  const HandlerModes modes_;
  const HandlerModes* const outer_;
};

// Runs the handlers of signals that have come; throws what they raise. Needs the interpreter lock.
void serve_signals();

}  // namespace cograd::python
