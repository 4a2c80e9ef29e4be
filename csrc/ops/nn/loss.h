// SPDX-License-Identifier: BSD-3-Clause
// What the loss ops share: how a reduction is asked for and applied.
#pragma once
#include "kernels/loss.h"
#include "ops/reduce/reduce.h"

namespace cograd {

using kernels::Reduction;

// 'none', 'mean' or 'sum', unless one of torch's deprecated flags says otherwise.
Reduction reduction_of(std::string_view name, std::optional<bool> size_average,
                       std::optional<bool> reduce);
// The elementwise losses reduced; differentiable.
Tensor reduced_loss(const Tensor& loss, Reduction r);

}  // namespace cograd
