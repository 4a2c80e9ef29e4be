// SPDX-License-Identifier: BSD-3-Clause
// Calls with samples of a vmap: by the user's rule, or sample by sample and stacked.
#include "autograd/custom_samples.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "autograd/custom_function.h"
#include "tensor/warn.h"

namespace cograd {

namespace {

void tell_of_loop(const SampledCall& f) {
  static std::mutex mutex;
  static auto* told = new std::set<std::string, std::less<>>;
  {
    const std::lock_guard lock(mutex);
    if (!told->insert(f.name()).second) return;
  }
  warn(detail::concat("vmap: ", f.name(), " has no vmap rule and runs sample by sample. Add\n",
                      f.rule_to_write()));
}

// `t` with its samples in `dim`, below the handles of later vmaps.
Tensor with_level(const Tensor& t, int dim, LevelId level) {
  if (batch_level(t) <= level) return make_batched(t, dim, level);
  return make_batched(with_level(samples_first(t), dim + 1, level), 0, batch_level(t));
}

Tensor checked_output(const SampledCall& f, const VmapLevel& level, const Tensor& t, int64_t dim,
                      size_t i) {
  COGRAD_CHECK_INDEX(dim >= -t.dim() && dim < t.dim(), f.name(), ": the vmap rule gave out_dim ",
                     dim, " for output ", i, ", which has ", t.dim(), " dims");
  const int at = static_cast<int>(dim < 0 ? dim + t.dim() : dim);
  COGRAD_CHECK_VALUE(t.size(at) == level.size, f.name(), ": the vmap rule gave output ", i,
                     " of shape ", to_string(t.sizes()), " with out_dim ", dim, ", expected ",
                     level.size, " samples there");
  COGRAD_CHECK(batch_level(t) != level.id, f.name(), ": the vmap rule gave output ", i,
               " that has samples of this vmap already: what a rule uses must be among its "
               "arguments");
  return with_level(t, at, level.id);
}

std::vector<Tensor> by_rule(SampledCall& f, const VmapLevel& level,
                            std::span<const Tensor> inputs) {
  std::vector<Tensor> wholes;
  std::vector<SampleDim> dims, out_dims;
  for (const Tensor& t : inputs) {
    const bool batched = batch_level(t) == level.id;
    wholes.push_back(batched ? whole_of(t) : t);
    dims.push_back(batched ? SampleDim(batch_dim(t)) : SampleDim());
  }
  std::vector<Tensor> outputs = f.call_rule(level, wholes, dims, out_dims);
  COGRAD_CHECK(out_dims.size() == outputs.size(), f.name(), ": the vmap rule returned ",
               outputs.size(), " outputs and ", out_dims.size(),
               " out_dims, expected one for each");
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& t = outputs[i];
    if (!t.defined() || !out_dims[i]) continue;
    const auto same_whole = [&](const Tensor& w) { return w.is(t); };
    const auto at = std::find_if(wholes.begin(), wholes.end(), same_whole);
    const auto input = static_cast<size_t>(at - wholes.begin());
    if (at != wholes.end() && dims[input] == out_dims[i]) {  // written in place
      t = inputs[input];
      if (requires_grad(memory_of(t))) t->flags |= kRequiresGrad;
      continue;
    }
    t = checked_output(f, level, t, *out_dims[i], i);
  }
  return outputs;
}

// The outputs of one sample after the other.
class Loop {
 public:
  Loop(SampledCall& f, const VmapLevel& level, std::span<const Tensor> inputs)
      : f_(f), level_(level), inputs_(inputs) {
    for (const Tensor& t : inputs)
      wholes_.push_back(batch_level(t) == level.id ? samples_first(t) : Tensor());
  }
  std::vector<Tensor> run() {
    std::vector<std::vector<Tensor>> columns;
    for (int64_t b = 0; b < level_.size; ++b) {
      std::vector<Tensor> out = one(b);
      if (b == 0) columns.resize(out.size());
      COGRAD_CHECK(out.size() == columns.size(), "vmap: ", f_.name(), " returned ", out.size(),
                   " outputs for sample ", b, ", and ", columns.size(), " for the first");
      for (size_t i = 0; i < out.size(); ++i) columns[i].push_back(std::move(out[i]));
    }
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < columns.size(); ++i) outputs.push_back(joined(columns[i], i));
    return outputs;
  }

 private:
  std::vector<Tensor> one(int64_t b) {
    std::vector<Tensor> sample;
    SmallVec<uint32_t, 4> versions;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      sample.push_back(wholes_[i].defined() ? autograd_ops.select(wholes_[i], 0, b) : inputs_[i]);
      versions.push_back(inputs_[i].defined() ? inputs_[i]->current_version() : 0);
    }
    std::vector<Tensor> out = f_.call(sample);
    for (size_t i = 0; i < inputs_.size(); ++i)
      COGRAD_CHECK(wholes_[i].defined() || !inputs_[i].defined() ||
                       inputs_[i]->current_version() == versions[i],
                   "vmap: ", f_.name(), " wrote its tensor argument ", i,
                   " in place, which is the same for all samples, but computes a value for each of "
                   "them. Give it a clone for each sample: expand it before, or write a vmap rule");
    if (b == 0) returned_.assign(out.size(), inputs_.size());
    for (size_t i = 0; b == 0 && i < out.size(); ++i)
      for (size_t k = 0; k < sample.size(); ++k)
        if (wholes_[k].defined() && out[i].defined() && out[i].is(sample[k])) returned_[i] = k;
    return out;
  }
  Tensor joined(const std::vector<Tensor>& column, size_t i) const {
    if (returned_[i] < inputs_.size()) {  // an argument that was written in place
      const Tensor& t = inputs_[returned_[i]];
      if (requires_grad(memory_of(t))) t->flags |= kRequiresGrad;
      return t;
    }
    const auto some =
        std::find_if(column.begin(), column.end(), [](const Tensor& t) { return t.defined(); });
    if (some == column.end()) return {};
    for (const Tensor& t : column)
      COGRAD_CHECK(t.defined() && same(t.sizes(), column[0].sizes()), "vmap: output ", i, " of ",
                   f_.name(), " has a shape that depends on the values: ",
                   column[0].defined() ? to_string(column[0].sizes()) : "None", " for one sample, ",
                   t.defined() ? to_string(t.sizes()) : "None", " for another");
    return with_level(autograd_ops.stack(column), 0, level_.id);
  }

  SampledCall& f_;
  const VmapLevel& level_;
  std::span<const Tensor> inputs_;
  std::vector<Tensor> wholes_;
  std::vector<size_t> returned_;  // by output: the input that it is
};

}  // namespace

std::vector<Tensor> call_samples(SampledCall& f, std::span<const Tensor> inputs) {
  LevelId highest = 0;
  for (const Tensor& t : inputs) highest = std::max(highest, batch_level(t));
  const VmapLevel level = vmap_level(highest, f.name().c_str());
  if (f.has_rule()) return by_rule(f, level, inputs);
  tell_of_loop(f);
  COGRAD_CHECK(level.size > 0, "vmap: ", f.name(),
               " runs sample by sample, and there is no sample. Add\n", f.rule_to_write());
  return Loop(f, level, inputs).run();
}

// --- functions that run on handles -------------------------------------------------------------

Tensor SampleFrames::strip(const Tensor& t, SampleChain& chain) {
  Tensor at = t;
  while (is_batched(at)) {
    const VmapLevel& level = vmap_level(batch_level(at), "vmap");
    const auto place =
        std::find_if(levels.begin(), levels.end(), [&](const auto& l) { return l.id >= level.id; });
    if (place == levels.end() || place->id != level.id) levels.insert(place, level);
    chain.emplace(chain.begin(), level.id, batch_dim(at));
    at = Tensor(whole_of(at));
  }
  return at;
}

Dims SampleFrames::logical(IntList sizes, const SampleChain& chain) {
  Dims out(sizes);
  for (const auto& [level, dim] : chain) out.erase(static_cast<size_t>(dim));
  return out;
}

Tensor rewrapped(const Tensor& memory, const SampleChain& chain) {
  Tensor t = memory;
  for (const auto& [level, dim] : chain) t = make_batched(t, dim, level);
  return t;
}

ReopenedFrames::ReopenedFrames(const SampleFrames& frames) : frames_(frames) {
  ids_.reserve(frames.levels.size());
  for (const VmapLevel& l : frames.levels) ids_.push_back(enter_vmap(l.size, l.randomness));
}
ReopenedFrames::~ReopenedFrames() {
  for (size_t i = ids_.size(); i-- > 0;) leave_vmap(ids_[i]);
}

LevelId ReopenedFrames::now(LevelId then) const {
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

// All of `samples` in dim 0, zero but for the first.
Tensor in_first(const Tensor& t, int64_t samples) {
  const Tensor zeros = autograd_ops.zeros(in_front(samples, t.sizes()), t.dtype());
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

Tensor ReopenedFrames::wrap(Tensor memory, const SampleChain& chain) const {
  for (const auto& [level, dim] : chain) memory = make_batched(memory, dim, now(level));
  return memory;
}

Tensor ReopenedFrames::wrap_gradient(Tensor memory, const SampleChain& chain) const {
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

Tensor ReopenedFrames::translate(const Tensor& t) const {
  if (!is_batched(t)) return t;
  const LevelId level = now(batch_level(t));
  const Tensor whole = translate(whole_of(t));
  return make_batched(whole, batch_dim(t), level != 0 ? level : batch_level(t));
}

Tensor ReopenedFrames::gradient_to_memory(Tensor g, const SampleChain& chain, IntList sizes) const {
  const Dims one = SampleFrames::logical(sizes, chain);
  if (!same(g.sizes(), one)) g = autograd_ops.sum_to(g, one);
  for (size_t i = ids_.size(); i-- > 0;) {
    const Dims inner(g.sizes());
    g = batch_level(g) == ids_[i]
            ? samples_first(g)
            : autograd_ops.expand(g, in_front(frames_.levels[i].size, g.sizes()));
    const auto* own = find_level(chain, frames_.levels[i].id);
    g = own != nullptr ? moved_to(g, own->second) : autograd_ops.sum_to(g, inner);
  }
  return g;
}

Tensor ReopenedFrames::tangent_to_memory(Tensor t, const SampleChain& chain) const {
  for (size_t i = ids_.size(); i-- > 0;) {
    const auto* own = find_level(chain, frames_.levels[i].id);
    const bool batched = batch_level(t) == ids_[i];
    if (own == nullptr) {  // equal samples
      if (batched) t = autograd_ops.select(samples_first(t), 0, 0);
      continue;
    }
    t = batched ? samples_first(t)
                : autograd_ops.expand(t, in_front(frames_.levels[i].size, t.sizes()));
    t = moved_to(t, own->second);
  }
  return t;
}

}  // namespace cograd
