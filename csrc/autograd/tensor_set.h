// SPDX-License-Identifier: BSD-3-Clause
// TensorSet: a few tensors, compared by identity.
#pragma once
#include "autograd/thread_state.h"
#include "tensor/tensor.h"

namespace cograd {

// A few tensors, and those of a set around it. Compared by identity.
class TensorSet {
 public:
  explicit TensorSet(const TensorSet* around) noexcept
      : around_(around),
        recording_(around != nullptr ? around->recording_ : thread_state.grad_enabled) {}
  // Whether the caller of the outermost one records.
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
