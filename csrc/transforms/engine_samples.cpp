// SPDX-License-Identifier: BSD-3-Clause
// Runs a node's backward on batched gradients.
#include "transforms/engine_samples.h"

#include <algorithm>

#include "autograd/run/run.h"
#include "transforms/batch.h"
#include "transforms/custom_function.h"

namespace cograd {

namespace {

Tensor sample(const Tensor& g, LevelId level, int64_t at) {
  if (!g.defined() || batch_level(g) != level) return g;
  return autograd_ops.select(batch_dim_first(g), 0, at);
}

void sample_by_sample(Node& n, BackwardArgs& args) {
  const std::vector<Tensor> grads(args.grads.begin(), args.grads.end());
  const VmapLevel level = vmap_level(highest_batch_level(grads), "backward");
  std::vector<std::vector<Tensor>> found(args.out.size());
  for (int64_t b = 0; b < level.size; ++b) {
    std::vector<Tensor> one, out(args.out.size());
    for (const Tensor& g : grads) one.push_back(sample(g, level.id, b));
    BackwardArgs part = args;
    part.grads = one;
    part.out = out;
    part.keep_graph = true;
    call_backward(n, part);
    for (size_t i = 0; i < out.size(); ++i) found[i].push_back(std::move(out[i]));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const auto some =
        std::find_if(found[i].begin(), found[i].end(), [](const Tensor& t) { return t.defined(); });
    if (some == found[i].end()) continue;
    const Tensor zeros = autograd_ops.zeros(some->sizes(), some->dtype());
    for (Tensor& t : found[i])
      if (!t.defined()) t = zeros;
    args.out[i] = make_batched(autograd_ops.stack(found[i]), 0, level.id);
  }
}

}  // namespace

void backward_of_samples(Node& n, BackwardArgs& args) {
  const auto* custom = dynamic_cast<const CustomNode*>(&n);
  if (custom != nullptr && !custom->accepts_batched()) return sample_by_sample(n, args);
  n.backward(args);
}

}  // namespace cograd
