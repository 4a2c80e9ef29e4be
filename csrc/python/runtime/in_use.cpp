// SPDX-License-Identifier: BSD-3-Clause
#include "python/runtime/in_use.h"

#include <algorithm>

namespace cograd::python {

namespace {
bool is_or_stands_for(const Tensor& t, const TensorImpl* other) noexcept {
  return t.defined() && (t.impl() == other || physical_tensor(t).impl() == other);
}
bool any_is(TensorList list, const TensorImpl* t) noexcept {
  return std::any_of(list.begin(), list.end(),
                     [t](const Tensor& one) { return is_or_stands_for(one, t); });
}
}  // namespace

constexpr ArgumentsInUse::Kind ArgumentsInUse::kKind{
    [](const InUse* u, const TensorImpl* t) noexcept {
      const auto* use = static_cast<const ArgumentsInUse*>(u);
      for (size_t i = 0; i < use->record_->args.size(); ++i) {
        const Value& v = use->args_[i];
        if (v.has_tensor() && is_or_stands_for(v.tensor(), t)) return true;
        if (v.kind == COGRAD_TENSORS && any_is(v.tensors(), t)) return true;
      }
      return any_is(use->outs_, t);
    },
    [](const InUse* u) noexcept {
      return static_cast<const ArgumentsInUse*>(u)->record_->spec.name;
    }};

constexpr TensorInUse::Kind TensorInUse::kKind{
    [](const InUse* u, const TensorImpl* t) noexcept {
      return is_or_stands_for(static_cast<const TensorInUse*>(u)->tensor_, t);
    },
    [](const InUse* u) noexcept { return static_cast<const TensorInUse*>(u)->name_; }};

}  // namespace cograd::python
