// SPDX-License-Identifier: BSD-3-Clause
// The executor: runs a graph backward from its roots, newest node first, without recursion.
#pragma once
#include <functional>

#include "autograd/variable.h"

namespace cograd {

struct BackwardRequest {
  std::vector<Edge> roots;    // borrowed; node is never null
  std::vector<Tensor> grads;  // one per root, of the root's shape and dtype
  std::vector<Edge> inputs;   // borrowed; where to stop; empty: run to every leaf
  bool accumulate = false;    // with inputs: add to the leaves' .grad instead of returning
  bool keep_graph = false;
  bool create_graph = false;
};

// Gradients for `inputs`, in order (undefined where none arrived); empty when accumulating.
COGRAD_API std::vector<Tensor> run_backward(BackwardRequest request);

// Called every few thousand nodes of a run: lets the layer above serve signals and other threads.
COGRAD_API extern void (*engine_tick)();
// The node that is running on this thread, or null.
COGRAD_API Node* running_node() noexcept;
// The id of the backward that is running on this thread, or -1; whether it will run `node`.
COGRAD_API int64_t running_id() noexcept;
COGRAD_API bool will_run(Node* node);
// Whether no backward that was asked for chosen inputs is running on this thread.
COGRAD_API bool runs_to_every_leaf() noexcept;
// Runs `f` when the backward that is running on this thread ends; false if none is.
COGRAD_API bool queue_callback(std::function<void()> f);

// Brings a gradient to the shape and dtype `meta` asks for (sum over broadcast dims, cast).
COGRAD_API void fit_gradient(Tensor& g, const OutputMeta& meta, const Node* from, size_t index);

}  // namespace cograd
