// SPDX-License-Identifier: BSD-3-Clause
// Computes tangents of a recorded operation from its backward alone.
#pragma once
#include "autograd/graph/tensor_set.h"
#include "autograd/run/engine.h"

namespace cograd {

// Returns an edge to a node that does nothing, for an input whose gradient only the tangent
// computation needs. The caller owns the reference.
COGRAD_API Edge wanted_edge();
// Removes such edges from a node once its tangents are computed.
COGRAD_API void drop_wanted_edges(Node& node) noexcept;

// Returns the tangents of the outputs: the derivative of <h(u), given> with respect to u, where
// h(u), linear in u, are `node`'s gradients for cotangents u. `given` has a tangent per edge
// (undefined: none); results may be undefined too. With `record` they have a history.
COGRAD_API std::vector<Tensor> tangents_of_node(Node& node, std::span<const Tensor> given,
                                                std::span<const Tensor> outputs, bool record);

// Computes Re sum(conj(a) b) and sum |a| |b| without recording; the ops layer sets it.
struct Pairing {
  double sum = 0, size = 0;
};
COGRAD_API extern Pairing (*real_pairing)(const Tensor& a, const Tensor& b);

}  // namespace cograd
