// SPDX-License-Identifier: BSD-3-Clause
// Padding that other ops use.
#pragma once
#include "ops/core/op.h"

namespace cograd {

// pad[2 k] elements in front of and pad[2 k + 1] behind those of the k-th last dim.
Tensor constant_pad(const Tensor& x, IntList pad, Scalar value);

}  // namespace cograd
