// SPDX-License-Identifier: BSD-3-Clause
#include "python/runtime/signals.h"

#include "python/tensor/tensor.h"

namespace cograd::python {

namespace {
constinit thread_local const HandlerModes* of_caller = nullptr;  // for the innermost backward run
}  // namespace

HandlerModes HandlerModes::here() noexcept {
  const ThreadState& t = thread_state;
  return {t.grad_enabled, t.inference, t.taint, t.max_visible_level, t.observer};
}

void HandlerModes::set() const noexcept {
  ThreadState& t = thread_state;
  t.grad_enabled = grad_enabled;
  t.inference = inference;
  t.taint = taint;
  t.max_visible_level = max_visible_level;
  t.observer = observer;
}

BackwardCaller::BackwardCaller() noexcept
    : modes_(HandlerModes::here()), outer_(std::exchange(of_caller, &modes_)) {}
BackwardCaller::~BackwardCaller() { of_caller = outer_; }

void serve_signals() {
  struct Modes {
    const HandlerModes run = HandlerModes::here();
    Modes() noexcept {
      if (of_caller != nullptr) of_caller->set();
    }
    ~Modes() { run.set(); }
  };
  const Modes modes;
  if (PyErr_CheckSignals() != 0) throw_python_error();
}

}  // namespace cograd::python
