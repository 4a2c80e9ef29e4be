// SPDX-License-Identifier: BSD-3-Clause
// The engine's part of vmap.
#pragma once
#include "autograd/graph/node.h"

namespace cograd {

// Runs a node that was recorded outside of a vmap on gradients of which some are batched. A user's
// function that accepts no batched tensors runs sample by sample.
void backward_of_samples(Node& n, BackwardArgs& args);

}  // namespace cograd
