// SPDX-License-Identifier: BSD-3-Clause
// TensorSet: a few tensors, compared by identity.
#pragma once
#include "autograd/modes/thread_state.h"
#include "tensor/tensor.h"

namespace cograd {

// A few tensors plus those of an enclosing set, compared by identity. It holds arguments of an op:
// those that count as requiring grad, or those that saved-tensor hooks must see.
class TensorSet {
 public:
  explicit TensorSet(const TensorSet* around) noexcept
      : around_(around),
        recording_(around != nullptr ? around->recording_ : thread_state.grad_enabled) {}
  // True if grad mode was on when the outermost set was made.
  bool recording() const noexcept { return recording_; }
  void add(const TensorImpl* t) { list_.push_back(t); }
  bool contains(const TensorImpl* t) const noexcept {
    for (const TensorImpl* p : list_)
      if (p == t) return true;
    return around_ != nullptr && around_->contains(t);
  }

 private:
  SmallVec<const TensorImpl*, 4> list_;
  const TensorSet* around_;
  bool recording_;
};

}  // namespace cograd
