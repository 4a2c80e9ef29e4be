// SPDX-License-Identifier: BSD-3-Clause
// Padding for other ops.
#pragma once
#include "ops/declare/op.h"

namespace cograd {

// Pads the k-th last dim with pad[2 k] elements in front and pad[2 k + 1] behind.
Tensor constant_pad(const Tensor& x, IntList pad, Scalar value);

}  // namespace cograd
