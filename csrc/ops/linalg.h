// SPDX-License-Identifier: BSD-3-Clause
// Linear algebra ops that other ops use, and the checks they share.
#pragma once
#include "ops/ops.h"

namespace cograd {

// (sum |x|^p)^(1/p) over dims; None: all.
Tensor vector_norm(const Tensor& x, double p, std::optional<IntList> dims, bool keepdim);

}  // namespace cograd
