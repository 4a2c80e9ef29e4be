// SPDX-License-Identifier: BSD-3-Clause
// torch::autograd, the guards of the dispatcher, and the namespace torch itself.
#pragma once
#include "cograd/torch_compat/impl/dispatch_macros.h"

namespace cograd {
namespace torch_compat {

// Counts the BelowAutograd guards on this thread, in this shared object.
COGRAD_COMPAT_LOCAL inline int& below_autograd() {
  static thread_local int depth = 0;
  return depth;
}
// In its scope nothing is recorded, and ops of this library run their CPU kernels.
class BelowAutograd {
 public:
  BelowAutograd() { ++below_autograd(); }
  explicit BelowAutograd(bool) : BelowAutograd() {}
  ~BelowAutograd() { --below_autograd(); }
  BelowAutograd(const BelowAutograd&) = delete;
  BelowAutograd& operator=(const BelowAutograd&) = delete;

 private:
  NoGradGuard no_grad_;
};

}  // namespace torch_compat
}  // namespace cograd

namespace at {
using AutoDispatchBelowAutograd = ::cograd::torch_compat::BelowAutograd;
using AutoDispatchBelowADInplaceOrView = ::cograd::torch_compat::BelowAutograd;
using AutoNonVariableTypeMode = ::cograd::torch_compat::BelowAutograd;
using ::cograd::AutoGradMode;
using ::cograd::GradMode;
using ::cograd::InferenceMode;
using ::cograd::NoGradGuard;
}  // namespace at

namespace torch {

using namespace ::at;   // NOLINT
using namespace ::c10;  // NOLINT
using Dtype = ::cograd::DType;

namespace autograd {
using namespace ::cograd::autograd;  // NOLINT
using tensor_list = variable_list;
using ::cograd::AutoGradMode;
using ::cograd::GradMode;
using ::cograd::NoGradGuard;
}  // namespace autograd

namespace indexing {
using namespace ::cograd::indexing;  // NOLINT
using ::cograd::TensorIndex;
}  // namespace indexing

namespace nn {
namespace functional {
using namespace ::at;  // NOLINT
}
}  // namespace nn

}  // namespace torch

namespace c10 {
using ::cograd::IValue;
}
