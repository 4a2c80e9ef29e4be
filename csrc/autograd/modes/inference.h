// SPDX-License-Identifier: BSD-3-Clause
// Switches grad mode as users do, and tells which results are inference tensors.
#pragma once
#include "autograd/modes/thread_state.h"

namespace cograd {

// True in inference mode, unless grad mode was switched on inside of it: an op that is recorded
// there may save the result of another op, and inference tensors cannot be saved.
COGRAD_API bool makes_inference_tensors() noexcept;
// Switches grad mode on or off.
COGRAD_API void set_grad_mode(bool on) noexcept;
// Restores former modes of this thread.
COGRAD_API void restore_modes(bool inference, bool grad) noexcept;

}  // namespace cograd
