// SPDX-License-Identifier: BSD-3-Clause
// The tangent of a recorded operation, from nothing but its backward.
#pragma once
#include "autograd/engine.h"
#include "autograd/tensor_set.h"

namespace cograd {

// An edge to nowhere for an input whose gradient a rule asks for itself; owned.
COGRAD_API Edge wanted_edge();
// Takes such edges off a node whose tangents are there.
COGRAD_API void drop_wanted_edges(Node& node) noexcept;

// With h(u) the gradients that `node` gives for cotangents u of its outputs, linear in u, the
// tangents of the outputs are the derivative of <h(u), given> by u. `given`: a tangent for each
// edge, undefined where there is none. Results are undefined where nothing depends on `given`.
// `record`: the tangents are to have a history.
COGRAD_API std::vector<Tensor> tangents_of_node(Node& node, std::span<const Tensor> given,
                                                std::span<const Tensor> outputs, bool record);

// Re sum(conj(a) b) and sum |a| |b| of the values alone; the ops layer fills it in.
struct Pairing {
  double sum = 0, size = 0;
};
COGRAD_API extern Pairing (*real_pairing)(const Tensor& a, const Tensor& b);

}  // namespace cograd
