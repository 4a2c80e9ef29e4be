// SPDX-License-Identifier: BSD-3-Clause
// Grad-mode guards, backward and grad.
#pragma once
#include "cograd/tensor.h"

namespace cograd {
inline namespace abi1 {

// Switches the recording of this thread on or off for its scope.
class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled) : previous_(cograd_grad_enabled()) {
    cograd_set_grad_enabled(enabled);
  }
  ~AutoGradMode() { cograd_set_grad_enabled(previous_); }
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;

 private:
  int32_t previous_;
};
// Records nothing in its scope.
struct NoGradGuard : AutoGradMode {
  NoGradGuard() : AutoGradMode(false) {}
};
// In its scope nothing is recorded, and new tensors can never be part of a graph.
class InferenceMode {
 public:
  explicit InferenceMode(bool enabled = true)
      : previous_(cograd_inference_enabled()), no_grad_(!enabled && cograd_grad_enabled() != 0) {
    cograd_set_inference_enabled(enabled);
  }
  ~InferenceMode() { cograd_set_inference_enabled(previous_); }
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;

 private:
  int32_t previous_;
  AutoGradMode no_grad_;
};
// Says whether this thread records: inside a backward, whether the run records a graph.
struct GradMode {
  static bool is_enabled() { return cograd_grad_enabled() != 0; }
  static void set_enabled(bool v) { cograd_set_grad_enabled(v); }
};

namespace autograd {
using Variable = Tensor;
using cograd::abi1::variable_list;
using tensor_list = variable_list;

namespace ext {
using namespace cograd::abi1::ext;
inline const cograd_tensor* handles(TensorList l) {
  return reinterpret_cast<const cograd_tensor*>(l.data());
}
inline void check_grads(const char* who, TensorList roots, TensorList grads) {
  if (!grads.empty() && grads.size() != roots.size())
    fail(ErrorKind::Runtime, who, "(): got ", roots.size(), " tensors and ", grads.size(),
         " gradients");
}
}  // namespace ext

// Adds the gradients of `tensors` to .grad of the leaves, or only of `inputs` if there are any.
inline void backward(TensorList tensors, TensorList grad_tensors = {},
                     std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                     TensorList inputs = {}) {
  ext::check_grads("backward", tensors, grad_tensors);
  const uint32_t flags = (retain_graph.value_or(create_graph) ? COGRAD_RETAIN_GRAPH : 0) |
                         (create_graph ? COGRAD_CREATE_GRAPH : 0);
  ext::check(cograd_backward(ext::handles(tensors),
                             grad_tensors.empty() ? nullptr : ext::handles(grad_tensors),
                             tensors.size(), ext::handles(inputs), inputs.size(), flags));
}
// Returns the gradients of `outputs` with respect to `inputs`. With allow_unused the gradient of an
// unused input is undefined; without it that raises.
inline variable_list grad(TensorList outputs, TensorList inputs, TensorList grad_outputs = {},
                          std::optional<bool> retain_graph = std::nullopt,
                          bool create_graph = false, bool allow_unused = false) {
  ext::check_grads("grad", outputs, grad_outputs);
  const uint32_t flags = (retain_graph.value_or(create_graph) ? COGRAD_RETAIN_GRAPH : 0) |
                         (create_graph ? COGRAD_CREATE_GRAPH : 0) |
                         (allow_unused ? COGRAD_ALLOW_UNUSED : 0);
  std::vector<Tensor> out(inputs.size());
  ext::check(cograd_grad(ext::handles(outputs),
                         grad_outputs.empty() ? nullptr : ext::handles(grad_outputs),
                         outputs.size(), ext::handles(inputs), inputs.size(), flags,
                         reinterpret_cast<cograd_tensor*>(out.data())));
  return variable_list::named(std::move(out), "the gradients of inputs");
}
}  // namespace autograd

}  // namespace abi1
}  // namespace cograd
