// SPDX-License-Identifier: BSD-3-Clause
// Calls on batched tensors: by the user's vmap rule, or sample by sample with stacked results.
#include "transforms/custom_samples.h"

#include <algorithm>

#include "transforms/custom_function.h"

namespace cograd {

std::function<void()> (*keep_random_state)() = nullptr;

namespace {

void warn_of_loop(const SampledCall& f) {
  if (!warns_of_loops()) return;
  warn_once(detail::concat("vmap: ", f.name(), " has no vmap rule and runs sample by sample. Add\n",
                           f.rule_to_write()));
}

// True if a derivative of the inputs is needed but an output of the rule has no history or tangent.
bool loses_derivative(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const auto recorded = [](const Tensor& t) {
    return thread_state.grad_enabled && requires_grad(physical_tensor(t));
  };
  const auto dual = [](const Tensor& t) {
    return t.defined() && has_tangent_here(physical_tensor(t));
  };
  const bool by_gradient = std::any_of(inputs.begin(), inputs.end(), recorded);
  const bool by_tangent = std::any_of(inputs.begin(), inputs.end(), dual);
  for (const Tensor& t : outputs)
    if (t.defined() && is_differentiable(t.dtype()) &&
        ((by_gradient && !recorded(t)) || (by_tangent && !dual(t))))
      return true;
  return false;
}

std::vector<Tensor> run_rule(SampledCall& f, const VmapLevel& level, std::span<const Tensor> wholes,
                             std::span<const SampleDim> dims, std::vector<SampleDim>& out_dims);

// Returns `t` batched at `level` with the batch dim `dim`. Wrappers of later vmaps stay outside.
Tensor with_level(const Tensor& t, int dim, LevelId level) {
  if (batch_level(t) <= level) return make_batched(t, dim, level);
  return make_batched(with_level(batch_dim_first(t), dim + 1, level), 0, batch_level(t));
}

Tensor checked_output(const SampledCall& f, const VmapLevel& level, const Tensor& t, int64_t dim,
                      size_t i) {
  COGRAD_CHECK_INDEX(dim >= -t.dim() && dim < t.dim(), f.name(),
                     ": the vmap rule returned out_dim ", dim, " for output ", i, ", which has ",
                     t.dim(), " dims");
  const int at = static_cast<int>(dim < 0 ? dim + t.dim() : dim);
  COGRAD_CHECK_VALUE(t.size(at) == level.size, f.name(), ": the vmap rule returned output ", i,
                     " of shape ", to_string(t.sizes()), " with out_dim ", dim, ", expected ",
                     level.size, " samples there");
  COGRAD_CHECK(batch_level(t) != level.id, f.name(), ": the vmap rule returned output ", i,
               ", which is already batched by this vmap: it uses a tensor that is not an argument. "
               "Pass that tensor as an argument");
  return with_level(t, at, level.id);
}

std::vector<Tensor> by_rule(SampledCall& f, const VmapLevel& level,
                            std::span<const Tensor> inputs) {
  std::vector<Tensor> wholes;
  std::vector<SampleDim> dims, out_dims;
  for (const Tensor& t : inputs) {
    const bool batched = batch_level(t) == level.id;
    wholes.push_back(batched ? wrapped_tensor(t) : t);
    dims.push_back(batched ? SampleDim(batch_dim(t)) : SampleDim());
  }
  std::vector<Tensor> outputs = run_rule(f, level, wholes, dims, out_dims);
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
      if (requires_grad(physical_tensor(t))) t->flags |= kRequiresGrad;
      continue;
    }
    t = checked_output(f, level, t, *out_dims[i], i);
  }
  return outputs;
}

// Calls the function for one sample after the other and stacks the outputs.
class Loop {
 public:
  Loop(SampledCall& f, const VmapLevel& level, std::span<const Tensor> inputs)
      : f_(f), level_(level), inputs_(inputs) {
    for (const Tensor& t : inputs)
      wholes_.push_back(batch_level(t) == level.id ? batch_dim_first(t) : Tensor());
  }
  std::vector<Tensor> run() {
    std::vector<std::vector<Tensor>> columns;
    std::function<void()> same_numbers;
    if (level_.randomness == Randomness::Same) same_numbers = keep_random_state();
    for (int64_t b = 0; b < level_.size; ++b) {
      if (same_numbers) same_numbers();
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
    std::optional<HiddenVmap> alone;  // not with Randomness::Error: random ops must see the level
    if (level_.randomness != Randomness::Error) alone.emplace(level_.id);
    std::vector<Tensor> out = f_.call(sample);
    alone.reset();
    for (size_t i = 0; i < inputs_.size(); ++i)
      COGRAD_CHECK(wholes_[i].defined() || !inputs_[i].defined() ||
                       inputs_[i]->current_version() == versions[i],
                   "vmap: ", f_.name(), " wrote its tensor argument ", i,
                   " in place, but all samples share that tensor. expand() and clone() it over the "
                   "samples before the call, or write a vmap rule");
    if (b == 0) returned_.assign(out.size(), inputs_.size());
    for (size_t i = 0; b == 0 && i < out.size(); ++i)
      for (size_t k = 0; k < sample.size(); ++k)
        if (wholes_[k].defined() && out[i].defined() && out[i].is(sample[k])) returned_[i] = k;
    return out;
  }
  Tensor joined(const std::vector<Tensor>& column, size_t i) const {
    if (returned_[i] < inputs_.size()) {  // an argument that was written in place
      const Tensor& t = inputs_[returned_[i]];
      if (requires_grad(physical_tensor(t))) t->flags |= kRequiresGrad;
      return t;
    }
    const auto some =
        std::find_if(column.begin(), column.end(), [](const Tensor& t) { return t.defined(); });
    if (some == column.end()) return {};
    for (const Tensor& t : column)
      COGRAD_CHECK(batch_level(t) != level_.id, "vmap: a result of ", f_.name(),
                   " is already batched: it uses a batched tensor that is not an argument. Pass "
                   "that tensor as an argument");
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
  std::vector<size_t> returned_;  // for each output: the index of the input that it is
};

// A vmap rule, called on one sample of an outer vmap.
class RuleOfOne final : public SampledCall {
 public:
  RuleOfOne(SampledCall& rule, const VmapLevel& level, std::span<const SampleDim> dims,
            std::vector<SampleDim>& out_dims)
      : rule_(rule), level_(level), dims_(dims), out_dims_(out_dims) {}
  std::string name() const override { return rule_.name(); }
  std::string rule_to_write() const override { return rule_.rule_to_write(); }
  bool has_rule() const override { return false; }
  std::vector<Tensor> call_rule(const VmapLevel&, std::span<const Tensor>,
                                std::span<const SampleDim>, std::vector<SampleDim>&) override {
    return {};
  }
  std::vector<Tensor> call(std::span<const Tensor> inputs) override {
    out_dims_.clear();
    return run_rule(rule_, level_, inputs, dims_, out_dims_);
  }

 private:
  SampledCall& rule_;
  const VmapLevel& level_;
  std::span<const SampleDim> dims_;
  std::vector<SampleDim>& out_dims_;
};

std::vector<uint32_t> versions_of(std::span<const Tensor> list) {
  std::vector<uint32_t> out;
  for (const Tensor& t : list)
    out.push_back(t.defined() ? physical_tensor(t)->current_version() : 0);
  return out;
}

// Calls the rule on all samples of the outer vmaps, or on one at a time if the rule reads values.
std::vector<Tensor> run_rule(SampledCall& f, const VmapLevel& level, std::span<const Tensor> wholes,
                             std::span<const SampleDim> dims, std::vector<SampleDim>& out_dims) {
  const LevelId outer = highest_batch_level(wholes);
  if (outer == 0) return f.call_rule(level, wholes, dims, out_dims);
  if (f.rule_takes_samples()) {
    try {
      return f.call_rule(level, wholes, dims, out_dims);
    } catch (const CannotBatch&) {  // runs sample by sample below
    }
  }
  const VmapLevel around = vmap_level(outer, f.name().c_str());
  RuleOfOne one(f, level, dims, out_dims);
  return Loop(one, around, wholes).run();
}

// Returns the innermost vmap level at which an input is batched or has batched tangents.
LevelId level_of(std::span<const Tensor> inputs) {
  const LevelId batched = highest_batch_level(inputs);
  const std::vector<VmapLevel>& running = vmap_levels();
  for (auto level = running.rbegin(); level != running.rend() && level->id > batched; ++level)
    for (const Tensor& t : inputs)
      if (t.defined() && has_tangent_samples(t, level->id)) return level->id;
  return batched;
}

Tensor with_samples(const Tensor& t, const VmapLevel& level) {
  if (!t.defined() || batch_level(t) == level.id || !has_tangent_samples(t, level.id)) return t;
  return with_level(expand_samples(t, level.id, level.size), 0, level.id);
}

// Returns the inputs, where those that only have tangents at `level` get that level: a rule or a
// loop over the samples must see which samples a tangent has.
std::vector<Tensor> all_with_samples(std::span<const Tensor> inputs, const VmapLevel& level) {
  std::vector<Tensor> out;
  for (const Tensor& t : inputs) out.push_back(with_samples(t, level));
  return out;
}

std::vector<Tensor> run_samples(SampledCall& f, const VmapLevel& level,
                                std::span<const Tensor> inputs) {
  if (f.has_rule()) {
    const std::vector<uint32_t> before = versions_of(inputs);
    std::vector<Tensor> outputs = by_rule(f, level, inputs);
    if (f.non_differentiable() || !loses_derivative(inputs, outputs)) return outputs;
    COGRAD_CHECK(before == versions_of(inputs), "vmap: the vmap rule of ", f.name(),
                 " computes without recording and writes an argument, so that its derivative is "
                 "not known. Write the rule with ops, or call the function itself on all samples");
    warn_once(
        detail::concat("vmap: the vmap rule of ", f.name(),
                       " computes without recording, so where a derivative is needed the "
                       "samples run one by one. Write the rule with ops, or call the function "
                       "itself on all samples."));
  } else {
    warn_of_loop(f);
  }
  COGRAD_CHECK(level.size > 0, "vmap: ", f.name(),
               " runs sample by sample, but the batch has size 0. Add\n", f.rule_to_write());
  return Loop(f, level, inputs).run();
}

}  // namespace

Tensor with_tangent_samples(const Tensor& t) {
  Tensor out = t;
  for (const VmapLevel& level : vmap_levels()) out = with_samples(out, level);
  return out;
}

bool any_tangent_samples(std::span<const Tensor> list) {
  for (const VmapLevel& level : vmap_levels())
    for (const Tensor& t : list)
      if (t.defined() && has_tangent_samples(t, level.id)) return true;
  return false;
}

std::vector<Tensor> call_samples(SampledCall& f, std::span<const Tensor> inputs) {
  const VmapLevel level = vmap_level(level_of(inputs), f.name().c_str());
  const std::vector<Tensor> expanded = all_with_samples(inputs, level);
  const std::vector<uint32_t> before = versions_of(inputs);
  std::vector<Tensor> outputs = run_samples(f, level, expanded);
  for (size_t i = 0; i < inputs.size(); ++i)
    COGRAD_CHECK(!inputs[i].defined() || expanded[i].is(inputs[i]) ||
                     physical_tensor(inputs[i])->current_version() == before[i],
                 "vmap: ", f.name(), " wrote its tensor argument ", i,
                 " in place, which all samples share although its tangents differ. clone() it for "
                 "each sample before the call");
  return outputs;
}

}  // namespace cograd
