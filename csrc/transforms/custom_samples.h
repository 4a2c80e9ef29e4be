// SPDX-License-Identifier: BSD-3-Clause
// Calls of custom functions and registered ops of any language inside a vmap. They run the user's
// vmap rule, or one sample after the other. Functions that accept batched tensors are here, too.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "autograd/graph/node.h"
#include "transforms/batch.h"

namespace cograd {

// The batch dim of a tensor; none if the tensor is the same for all samples.
using SampleDim = std::optional<int64_t>;

// A call with batched tensors. The layer for a language derives from it and calls the user's code.
class COGRAD_API SampledCall {
 public:
  virtual ~SampledCall() = default;
  // The name in messages: "Cube", "op 'ns::cube'".
  virtual std::string name() const = 0;
  // The declaration of the vmap rule to write, for the warning that there is none.
  virtual std::string rule_to_write() const = 0;
  virtual bool has_rule() const = 0;
  // True if the rule accepts tensors that are batched at outer levels.
  virtual bool rule_takes_samples() const { return true; }
  // True if the outputs have no derivative by design.
  virtual bool non_differentiable() const { return false; }
  // Calls the user's vmap rule, which sets one dim per output. If a derivative is needed and the
  // rule does not record one, its outputs are dropped and the samples run one by one.
  virtual std::vector<Tensor> call_rule(const VmapLevel& level, std::span<const Tensor> inputs,
                                        std::span<const SampleDim> dims,
                                        std::vector<SampleDim>& out_dims) = 0;
  // Makes the call with other input tensors; outputs that are not tensors are undefined.
  virtual std::vector<Tensor> call(std::span<const Tensor> inputs) = 0;
};

// Saves the random generator's state; returns a function that restores it. Set by the layer above.
COGRAD_API extern std::function<void()> (*keep_random_state)();

// Makes the call for the innermost vmap level of the inputs; ops in it see the outer levels.
COGRAD_API std::vector<Tensor> call_samples(SampledCall& f, std::span<const Tensor> inputs);

// Returns `t` batched also at the running vmap levels at which only its tangents are batched, for
// code that runs once on batched tensors.
COGRAD_API Tensor with_tangent_samples(const Tensor& t);
COGRAD_API bool any_tangent_samples(std::span<const Tensor> list);

// The vmap levels of one tensor of a node, outermost first. Each has its batch dim, which is a dim
// of the tensor that the level wraps.
using SampleChain = std::vector<std::pair<LevelId, int>>;

// The vmap levels of a call that had batched tensors. The node's edges, outputs and saved tensors
// are those of the physical tensors.
struct VmapFrames {
  std::vector<VmapLevel> levels;  // ascending
  std::vector<SampleChain> inputs, outputs, saved;
  std::vector<Dims> input_sizes;  // of the physical tensors

  // Returns the physical tensor of `t`; records the levels of `t` in `chain` and in `levels`.
  Tensor strip(const Tensor& t, SampleChain& chain);
  // Returns the sizes of one sample, given those of the physical tensor.
  static Dims logical(IntList sizes, const SampleChain& chain);
};

// Wraps a physical tensor again at the levels that strip() recorded.
Tensor rewrapped(const Tensor& memory, const SampleChain& chain);

// In its scope the vmaps of a call are open again, with new level ids: the original vmaps may have
// ended, and later ones may be open.
class ReopenedVmaps {
 public:
  explicit ReopenedVmaps(const VmapFrames& frames);
  ~ReopenedVmaps();
  ReopenedVmaps(const ReopenedVmaps&) = delete;
  ReopenedVmaps& operator=(const ReopenedVmaps&) = delete;

  Tensor wrap(Tensor memory, const SampleChain& chain) const;
  // Wraps a gradient of an output. At levels that are not in `chain` only the first sample gets it
  // (the others are zero), so that a sum over the samples counts it once.
  Tensor wrap_gradient(Tensor memory, const SampleChain& chain) const;
  // Returns `t`, a batched tensor of forward, batched at the reopened levels instead.
  Tensor translate(const Tensor& t) const;
  // Unwraps the gradient of an input; sums it over levels that are not in `chain`. `sizes` are
  // those of the input's physical tensor.
  Tensor gradient_to_memory(Tensor g, const SampleChain& chain, IntList sizes) const;
  // Unwraps the tangent of an output; at levels that are not in `chain` it takes the first sample.
  Tensor tangent_to_memory(Tensor t, const SampleChain& chain) const;

 private:
  // Returns the new id of a level of forward; 0 if it was not one of the call's levels.
  LevelId now(LevelId then) const;
  const VmapFrames& frames_;
  std::vector<LevelId> ids_;  // the new ids of frames_.levels
};

}  // namespace cograd
