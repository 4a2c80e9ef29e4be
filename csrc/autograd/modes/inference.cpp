// SPDX-License-Identifier: BSD-3-Clause
// Grad mode inside of inference mode.
#include "autograd/modes/inference.h"

namespace cograd {

namespace {
constinit thread_local bool records_inside = false;  // grad mode was switched on in inference mode
}

bool makes_inference_tensors() noexcept { return thread_state.inference && !records_inside; }

void set_grad_mode(bool on) noexcept {
  thread_state.grad_enabled = on;
  if (on) records_inside = thread_state.inference;  // no_grad() inside of that changes nothing
}

void restore_modes(bool inference, bool grad) noexcept {
  thread_state.inference = inference;
  thread_state.grad_enabled = grad;
  records_inside = inference && grad;
}

}  // namespace cograd
