// SPDX-License-Identifier: BSD-3-Clause
// Custom functions and registered ops inside of a vmap, whatever language they are in: by the
// user's batching rule, or else sample by sample. And functions that run on handles.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "autograd/batch.h"
#include "autograd/node.h"

namespace cograd {

// Where a tensor has its samples; none: they are equal.
using SampleDim = std::optional<int64_t>;

// One call on tensors some of which have samples; a language adds how the user's code is called.
class COGRAD_API SampledCall {
 public:
  virtual ~SampledCall() = default;
  // What messages call it: "Cube", "op 'ns::cube'".
  virtual std::string name() const = 0;
  // The rule to write, for the warning that there is none.
  virtual std::string rule_to_write() const = 0;
  virtual bool has_rule() const = 0;
  // Whether the rule may get tensors with samples of outer vmaps.
  virtual bool rule_takes_samples() const { return true; }
  // Whether outputs without a derivative are as they should be.
  virtual bool non_differentiable() const { return false; }
  // The user's rule; fills one dim for each output. Where a derivative is asked for, and it
  // computes on its own, its outputs are dropped and the samples run one by one.
  virtual std::vector<Tensor> call_rule(const VmapLevel& level, std::span<const Tensor> inputs,
                                        std::span<const SampleDim> dims,
                                        std::vector<SampleDim>& out_dims) = 0;
  // The call itself with other tensors in the places of the inputs; outputs that are no tensor are
  // undefined.
  virtual std::vector<Tensor> call(std::span<const Tensor> inputs) = 0;
};

// Keeps the state of the random numbers, and returns what puts it back. Set by the layer above.
COGRAD_API extern std::function<void()> (*keep_random_state)();

// By the rule of the innermost vmap among the inputs; what it calls meets the outer ones.
COGRAD_API std::vector<Tensor> call_samples(SampledCall& f, std::span<const Tensor> inputs);

// The samples of one tensor of a node: its levels and, in each handle's whole, their dims,
// outermost first.
using SampleChain = std::vector<std::pair<LevelId, int>>;

// What a node knows of a call that ran on handles. Its edges, outputs and saved tensors are of the
// memory behind them.
struct SampleFrames {
  std::vector<VmapLevel> levels;  // ascending
  std::vector<SampleChain> inputs, outputs, saved;
  std::vector<Dims> input_sizes;  // of the memory

  // The memory behind `t`, whose samples are noted in `chain`.
  Tensor strip(const Tensor& t, SampleChain& chain);
  // Sizes of one sample.
  static Dims logical(IntList sizes, const SampleChain& chain);
};

// `memory` as a handle again, of the levels it had.
Tensor rewrapped(const Tensor& memory, const SampleChain& chain);

// In its scope the vmaps of a call are open again, under numbers of their own: those it was made in
// may have ended, and later ones be open.
class ReopenedFrames {
 public:
  explicit ReopenedFrames(const SampleFrames& frames);
  ~ReopenedFrames();
  ReopenedFrames(const ReopenedFrames&) = delete;
  ReopenedFrames& operator=(const ReopenedFrames&) = delete;

  Tensor wrap(Tensor memory, const SampleChain& chain) const;
  // A gradient of an output: of levels that this has not, in the first sample alone, so that a sum
  // over the samples counts it once.
  Tensor wrap_gradient(Tensor memory, const SampleChain& chain) const;
  // A handle made in forward.
  Tensor translate(const Tensor& t) const;
  // The gradient of an input: summed over the samples that this has not.
  Tensor gradient_to_memory(Tensor g, const SampleChain& chain, IntList sizes) const;
  Tensor tangent_to_memory(Tensor t, const SampleChain& chain) const;

 private:
  LevelId now(LevelId then) const;
  const SampleFrames& frames_;
  std::vector<LevelId> ids_;  // of frames_.levels
};

}  // namespace cograd
