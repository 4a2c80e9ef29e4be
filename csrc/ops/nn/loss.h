// SPDX-License-Identifier: BSD-3-Clause
// Shared by the loss ops: parsing and applying a reduction.
#pragma once
#include "kernels/nn/loss.h"
#include "ops/reduce/reduce.h"

namespace cograd {

using kernels::Reduction;

// Parses 'none', 'mean' or 'sum'; torch's deprecated flags override it.
Reduction reduction_of(std::string_view name, std::optional<bool> size_average,
                       std::optional<bool> reduce);
// Reduces elementwise losses; differentiable.
Tensor reduced_loss(const Tensor& loss, Reduction r);

}  // namespace cograd
