// SPDX-License-Identifier: BSD-3-Clause
// Signal handlers are Python code that may run during a backward run, but not in that run's modes.
#pragma once
#include "transforms/levels.h"

namespace cograd::python {

// The thread state that the engine and the ops change while they work.
struct HandlerModes {
  bool grad_enabled, inference, taint;
  LevelId max_visible_level;
  CallObserver* observer;

  static HandlerModes here() noexcept;
  void set() const noexcept;
};

// Saves the modes in which Python calls a backward run on this thread: handlers use them until it
// ends.
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

// Runs the handlers of pending signals; throws what they raise. Needs the interpreter lock.
void serve_signals();

}  // namespace cograd::python
