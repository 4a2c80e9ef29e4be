// SPDX-License-Identifier: BSD-3-Clause
// Calls of custom functions with batched tensors: the graph is built on the physical tensors.
#include <algorithm>

#include "transforms/custom_function.h"

namespace cograd {

void CustomCall::fail_samples() const {
  detail::fail(
      ErrorKind::NotImplemented, "vmap: ", node_.function_name(),
      " got a batched Tensor, but its description has neither an entry `call`, which makes "
      "the call for one sample, nor an entry `batch`, which makes it for all. Add one, or "
      "register the function as an op (COGRAD_LIBRARY, cograd.library), which vmap runs "
      "sample by sample.");
}

// Returns the physical tensor of an input and records its vmap levels.
TensorImpl* CustomCall::memory_of_input(TensorImpl* handle) {
  if (!node_.accepts_batched()) fail_samples();
  VmapFrames& frames = node_.frames();
  frames.inputs.resize(inputs_.size() + 1);
  return frames.strip(Tensor::borrow(handle), frames.inputs.back()).impl();
}

void CustomCall::finish_batched(std::span<Tensor> outputs, const Declared& declared) {
  VmapFrames found;
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
  if (found.levels.empty()) return finish_physical(outputs, declared);
  found.inputs.resize(inputs_.size());
  for (const TensorImpl* t : inputs_)
    found.input_sizes.push_back(t != nullptr ? Dims(t->sizes()) : Dims());
  node_.frames() = std::move(found);
  const std::vector<Tensor> before(wholes);
  const auto span_of = [](const Impls& v) {
    return std::span<TensorImpl* const>(v.data(), v.size());
  };
  finish_physical(wholes, {span_of(dirty), span_of(fixed), span_of(saved)});
  for (size_t i = 0; i < outputs.size(); ++i) {
    const SampleChain& chain = node_.frames_->outputs[i];
    if (!wholes[i].is(before[i]))
      outputs[i] = rewrapped(wholes[i], chain);
    else if (requires_grad(wholes[i]))
      for (Tensor t = outputs[i]; is_batched(t); t = Tensor(wrapped_tensor(t)))
        t->flags |= kRequiresGrad;
  }
}

// --- vmap levels of a node's tensors -------------------------------------------------------------

Tensor VmapFrames::strip(const Tensor& t, SampleChain& chain) {
  Tensor at = t;
  while (is_batched(at)) {
    const VmapLevel& level = vmap_level(batch_level(at), "vmap");
    const auto place =
        std::find_if(levels.begin(), levels.end(), [&](const auto& l) { return l.id >= level.id; });
    if (place == levels.end() || place->id != level.id) levels.insert(place, level);
    chain.emplace(chain.begin(), level.id, batch_dim(at));
    at = Tensor(wrapped_tensor(at));
  }
  return at;
}

Dims VmapFrames::logical(IntList sizes, const SampleChain& chain) {
  Dims out(sizes);
  for (const auto& [level, dim] : chain) out.erase(static_cast<size_t>(dim));
  return out;
}

Tensor rewrapped(const Tensor& memory, const SampleChain& chain) {
  Tensor t = memory;
  for (const auto& [level, dim] : chain) t = make_batched(t, dim, level);
  return t;
}

ReopenedVmaps::ReopenedVmaps(const VmapFrames& frames) : frames_(frames) {
  ids_.reserve(frames.levels.size());
  for (const VmapLevel& l : frames.levels) ids_.push_back(enter_vmap(l.size, l.randomness));
}
ReopenedVmaps::~ReopenedVmaps() {
  for (size_t i = ids_.size(); i-- > 0;) leave_vmap(ids_[i]);
}

LevelId ReopenedVmaps::now(LevelId then) const {
  for (size_t i = 0; i < ids_.size(); ++i)
    if (frames_.levels[i].id == then) return ids_[i];
  return 0;
}

namespace {

const std::pair<LevelId, int>* find_level(const SampleChain& chain, LevelId level) {
  for (const auto& entry : chain)
    if (entry.first == level) return &entry;
  return nullptr;
}

Dims in_front(int64_t n, IntList sizes) {
  Dims out{n};
  for (const int64_t s : sizes) out.push_back(s);
  return out;
}

// Returns a stack of `samples` tensors: `t` first, then zeros.
Tensor in_first(const Tensor& t, int64_t samples) {
  const PlaceGuard here(t->device);
  Tensor zeros = autograd_ops.zeros(in_front(samples, t.sizes()), t.dtype());
  if (samples == 0) return zeros;
  Dims strides;
  for (int i = 1; i < zeros.dim(); ++i) strides.push_back(zeros.strides()[static_cast<size_t>(i)]);
  return autograd_ops.scatter_slice(zeros, t, t.sizes(), strides, 0);
}

Tensor moved_to(const Tensor& t, int dim) {
  if (dim == 0) return t;
  Dims order;
  for (int i = 1; i < t.dim(); ++i) order.push_back(i);
  order.insert(static_cast<size_t>(dim), 0);
  return autograd_ops.permute(t, order);
}

}  // namespace

Tensor ReopenedVmaps::wrap(Tensor memory, const SampleChain& chain) const {
  for (const auto& [level, dim] : chain) memory = make_batched(memory, dim, now(level));
  return memory;
}

Tensor ReopenedVmaps::wrap_gradient(Tensor memory, const SampleChain& chain) const {
  int added = 0;
  for (size_t i = ids_.size(); i-- > 0;) {
    if (find_level(chain, frames_.levels[i].id) != nullptr) continue;
    memory = in_first(memory, frames_.levels[i].size);
    ++added;
  }
  for (size_t i = 0; i < ids_.size(); ++i) {
    const auto* own = find_level(chain, frames_.levels[i].id);
    memory = make_batched(memory, own != nullptr ? added + own->second : 0, ids_[i]);
    if (own == nullptr) --added;
  }
  return memory;
}

Tensor ReopenedVmaps::translate(const Tensor& t) const {
  if (!is_batched(t)) return t;
  const LevelId level = now(batch_level(t));
  const Tensor whole = translate(wrapped_tensor(t));
  return make_batched(whole, batch_dim(t), level != 0 ? level : batch_level(t));
}

Tensor ReopenedVmaps::gradient_to_memory(Tensor g, const SampleChain& chain, IntList sizes) const {
  const Dims one = VmapFrames::logical(sizes, chain);
  if (!same(g.sizes(), one)) g = autograd_ops.sum_to(g, one);
  for (size_t i = ids_.size(); i-- > 0;) {
    const Dims inner(g.sizes());
    g = batch_level(g) == ids_[i]
            ? batch_dim_first(g)
            : autograd_ops.expand(g, in_front(frames_.levels[i].size, g.sizes()));
    const auto* own = find_level(chain, frames_.levels[i].id);
    g = own != nullptr ? moved_to(g, own->second) : autograd_ops.sum_to(g, inner);
  }
  return g;
}

Tensor ReopenedVmaps::tangent_to_memory(Tensor t, const SampleChain& chain) const {
  for (size_t i = ids_.size(); i-- > 0;) {
    const auto* own = find_level(chain, frames_.levels[i].id);
    const bool batched = batch_level(t) == ids_[i];
    if (own == nullptr) {  // the input was not batched here: all samples are equal, keep the first
      if (batched) t = autograd_ops.select(batch_dim_first(t), 0, 0);
      continue;
    }
    t = batched ? batch_dim_first(t)
                : autograd_ops.expand(t, in_front(frames_.levels[i].size, t.sizes()));
    t = moved_to(t, own->second);
  }
  return t;
}

}  // namespace cograd
