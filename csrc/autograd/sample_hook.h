// SPDX-License-Identifier: BSD-3-Clause
// Tensor hooks inside of a vmap.
#pragma once
#include <memory>

#include "autograd/node.h"

namespace cograd {

// `hook`, registered on the batched tensor `t`, as a hook on the gradient of the physical tensor:
// it is called once with the gradient of each sample. Raises if the backward that will call it runs
// when a vmap of `t` has ended.
std::shared_ptr<Hook> hook_on_samples(const Tensor& t, std::shared_ptr<Hook> hook);

}  // namespace cograd
