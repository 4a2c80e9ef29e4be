// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/core/expect.h"

#include "tensor/slot.h"

namespace cograd::kernels {

bool expect_loop(LoopFn fn, bool flat) {
  COGRAD_SLOT_OR(true, expect_loop, fn, flat);
  return true;
}

}  // namespace cograd::kernels
