// SPDX-License-Identifier: BSD-3-Clause
#include "python/py_in_use.h"

#include <algorithm>

namespace cograd::python {

namespace {
bool is_or_stands_for(const Tensor& t, const TensorImpl* other) noexcept {
  return t.defined() && (t.impl() == other || memory_of(t).impl() == other);
}
bool any_is(TensorList list, const TensorImpl* t) noexcept {
  return std::any_of(list.begin(), list.end(),
                     [t](const Tensor& one) { return is_or_stands_for(one, t); });
}
}  // namespace

bool ArgumentsInUse::has(const TensorImpl* t) const noexcept {
  for (size_t i = 0; i < record_->args.size(); ++i) {
    if (args_[i].has_tensor() && is_or_stands_for(args_[i].tensor(), t)) return true;
    if (args_[i].kind == COGRAD_TENSORS && any_is(args_[i].tensors(), t)) return true;
  }
  return any_is(outs_, t);
}

bool TensorInUse::has(const TensorImpl* t) const noexcept { return is_or_stands_for(tensor_, t); }

}  // namespace cograd::python
