// SPDX-License-Identifier: BSD-3-Clause
// Unpacking of saved tensors and its errors.
#include "autograd/saved_tensor.h"

namespace cograd {

namespace {

const char* legacy_type_name(DType t) {
  constexpr const char* kName[kNumDTypes] = {
      "BoolTensor", "ByteTensor", "CharTensor",     "ShortTensor", "IntTensor",
      "LongTensor", "HalfTensor", "BFloat16Tensor", "FloatTensor", "DoubleTensor"};
  return kName[static_cast<int>(t)];
}

[[noreturn]] void fail_modified(const Tensor& t, bool is_output, uint32_t output_nr, Node* owner,
                                uint32_t expected) {
  std::string made_by;
  if (is_output) {
    made_by = detail::concat(", which is output ", output_nr, " of ", owner->name(), ",");
  } else if (Node* fn = grad_fn(t.impl())) {
    made_by = detail::concat(", which is output ", t->output_nr, " of ", fn->name(), ",");
  }
  detail::fail(ErrorKind::Runtime,
               "one of the variables needed for gradient computation has been modified by an "
               "inplace operation: [cograd.",
               legacy_type_name(t.dtype()), " ", to_string(t.sizes()), "]", made_by,
               " is at version ", t->current_version(), "; expected version ", expected,
               " instead. It was saved by ", owner->name(),
               ". Hint: write into a copy (.clone()), or do the in-place operation before the "
               "tensor is used.");
}

}  // namespace

void fail_released(const Node* owner) {
  detail::fail(ErrorKind::Runtime,
               "Trying to backward through the graph a second time (or directly access saved "
               "tensors after they have already been freed): ",
               owner->name(),
               " has released its saved tensors. Saved intermediate values of the graph are freed "
               "when you call .backward() or autograd.grad(). Specify retain_graph=True if you "
               "need to backward through the graph a second time or if you need to access saved "
               "tensors after calling backward.");
}

void SavedTensor::fail_inference() {
  detail::fail(ErrorKind::Runtime,
               "Inference tensors cannot be saved for backward. To work around you can make a "
               "clone to get a normal tensor and use it in autograd.");
}

Tensor SavedTensor::unpack(Node* owner, bool released) const {
  if (released) fail_released(owner);
  if (!tensor_.defined()) return Tensor();
  if (tensor_->current_version() != version_)
    fail_modified(tensor_, is_output_, output_nr_, owner, version_);
  if (!is_output_) return tensor_;
  Tensor t = Tensor::steal(tensor_->alias());
  owner->retain();
  t->grad_fn = owner;
  t->output_nr = output_nr_;
  return t;
}

}  // namespace cograd
