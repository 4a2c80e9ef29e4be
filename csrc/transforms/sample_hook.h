// SPDX-License-Identifier: BSD-3-Clause
// Tensor hooks inside a vmap.
#pragma once
#include <memory>

#include "autograd/graph/node.h"

namespace cograd {

// Turns `hook`, which is registered on the batched tensor `t`, into a hook on the gradient of the
// physical tensor. It is called once, with a batched gradient. Raises if the backward that will
// call it runs after a vmap of `t` has ended.
std::shared_ptr<Hook> hook_on_samples(const Tensor& t, std::shared_ptr<Hook> hook);

}  // namespace cograd
