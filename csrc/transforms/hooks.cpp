// SPDX-License-Identifier: BSD-3-Clause
// The functions by which the engine calls transforms.
#include "autograd/graph/transform_hooks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "transforms/batch.h"
#include "transforms/engine_samples.h"
#include "transforms/function_scope.h"
#include "transforms/levels.h"
#include "transforms/sample_hook.h"
#include "transforms/sparse.h"

namespace cograd {

namespace {

class TangentsOfLevels final : public KeptTangents {
 public:
  void add(const std::shared_ptr<TangentLevel>& level, Tensor value) {
    list_.push_back(std::make_unique<Tangent>(level, std::move(value)));
  }
  bool empty() const noexcept { return list_.empty(); }

  bool missing_on(const Tensor& t) const override {
    return std::any_of(list_.begin(), list_.end(),
                       [&](const auto& kept) { return missing(*kept, kept->value(), t); });
  }
  void set_missing_on(const Tensor& t) const override {
    for (const auto& kept : list_)
      if (Tensor value = kept->value(); missing(*kept, value, t))
        set_tangent(t, kept->level(), std::move(value));
  }

 private:
  static bool missing(const Tangent& kept, const Tensor& value, const Tensor& t) {
    return value.defined() && !tangent_of(t, kept.id()).defined();
  }
  std::vector<std::unique_ptr<Tangent>> list_;
};

std::unique_ptr<KeptTangents> keep_tangents(const Tensor& t) {
  if (is_batched(t)) return nullptr;
  auto kept = std::make_unique<TangentsOfLevels>();
  for (const auto& level : entered_levels())
    if (Tensor value = tangent_of(t, level->id()); value.defined())
      kept->add(level, std::move(value));
  if (kept->empty()) return nullptr;
  return kept;
}

void drop_tangents(TensorImpl* t) noexcept {
  if (TransformMeta* m = transform_or_null(t)) m->tangents.clear();
}

Tensor wrapped_like(const Tensor& handle, const Tensor& whole) {
  return make_batched(whole, batch_dim(handle), batch_level(handle));
}

bool level_entered() noexcept { return !entered_levels().empty(); }

const Tensor& unchecked_whole(const TensorImpl* handle) noexcept {
  return transform_or_null(handle)->whole;
}

}  // namespace

const TransformHooks transform_hooks{
    .unchecked_whole = unchecked_whole,
    .wrapped_tensor = wrapped_tensor,
    .physical_tensor = physical_tensor,
    .wrapped_like = wrapped_like,
    .batched_like = batched_like,
    .physical_like = physical_like,
    .fail_one_value = fail_one_value,
    .fail_batched = fail_batched,
    .sparse_values = sparse_values,
    .level_entered = level_entered,
    .has_tangent = has_tangent,
    .copy_tangents = copy_tangents,
    .drop_tangents = drop_tangents,
    .keep_tangents = keep_tangents,
    .scope_of = scope_of,
    .function_runs = function_runs,
    .check_captured = check_captured,
    .hook_on_samples = hook_on_samples,
    .backward_of_samples = backward_of_samples,
};

}  // namespace cograd
