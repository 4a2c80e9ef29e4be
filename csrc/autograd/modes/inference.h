// SPDX-License-Identifier: BSD-3-Clause
// Grad mode as users switch it, and which results are inference tensors.
#pragma once
#include "autograd/modes/thread_state.h"

namespace cograd {

// True in inference mode, unless grad mode was switched on inside of it: the ops that are recorded
// there save what others gave, and inference tensors cannot be saved.
COGRAD_API bool makes_inference_tensors() noexcept;
// Switches grad mode on or off.
COGRAD_API void set_grad_mode(bool on) noexcept;
// Restores former modes of this thread.
COGRAD_API void restore_modes(bool inference, bool grad) noexcept;

}  // namespace cograd
