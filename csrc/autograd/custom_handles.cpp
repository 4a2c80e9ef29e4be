// SPDX-License-Identifier: BSD-3-Clause
// Calls of custom functions that run on handles: the core sees the memory behind them.
#include "autograd/custom_function.h"

namespace cograd {

void CustomCall::fail_samples() const {
  detail::fail(ErrorKind::NotImplemented, "vmap: ", node_.function_name(),
               " is called on a Tensor that has a value for each sample, and its description says "
               "neither how to make the call again for one sample (the entry `call`) nor how to "
               "make it for all (the entry `batch`). Add one, or register it as an op "
               "(COGRAD_LIBRARY, cograd.library), which vmap runs sample by sample.");
}

TensorImpl* CustomCall::memory_of_input(TensorImpl* handle) {
  if (!node_.takes_samples()) fail_samples();
  SampleFrames& frames = node_.frames();
  frames.inputs.resize(inputs_.size() + 1);
  return frames.strip(Tensor::borrow(handle), frames.inputs.back()).impl();
}

void CustomCall::finish_handles(std::span<Tensor> outputs, const Declared& declared) {
  SampleFrames found;
  if (node_.frames_ != nullptr) found = *node_.frames_;
  const auto memory = [&](TensorImpl* t) -> TensorImpl* {
    SampleChain chain;
    return t == nullptr ? nullptr : found.strip(Tensor::borrow(t), chain).impl();
  };
  std::vector<Tensor> wholes;
  for (const Tensor& t : outputs) wholes.push_back(found.strip(t, found.outputs.emplace_back()));
  Impls dirty, fixed, saved;
  for (TensorImpl* t : declared.dirty) dirty.push_back(memory(t));
  for (TensorImpl* t : declared.non_differentiable) fixed.push_back(memory(t));
  for (TensorImpl* t : declared.saved) {
    SampleChain& chain = found.saved.emplace_back();
    saved.push_back(t == nullptr ? nullptr : found.strip(Tensor::borrow(t), chain).impl());
  }
  if (found.levels.empty()) return finish_wholes(outputs, declared);
  found.inputs.resize(inputs_.size());
  for (const TensorImpl* t : inputs_)
    found.input_sizes.push_back(t != nullptr ? Dims(t->sizes()) : Dims());
  node_.frames() = std::move(found);
  const std::vector<Tensor> before(wholes);
  const auto span_of = [](const Impls& v) {
    return std::span<TensorImpl* const>(v.data(), v.size());
  };
  finish_wholes(wholes, {span_of(dirty), span_of(fixed), span_of(saved)});
  for (size_t i = 0; i < outputs.size(); ++i) {
    const SampleChain& chain = node_.frames_->outputs[i];
    if (!wholes[i].is(before[i]))
      outputs[i] = rewrapped(wholes[i], chain);
    else if (requires_grad(wholes[i]))
      for (Tensor t = outputs[i]; is_batched(t); t = Tensor(whole_of(t))) t->flags |= kRequiresGrad;
  }
}

}  // namespace cograd
