// SPDX-License-Identifier: BSD-3-Clause
// UserNode: the graph node, and before that the call, of a custom function behind the C interface.
#pragma once
#include <optional>

#include "api/handles.h"
#include "autograd/custom_function.h"

namespace cograd::api {

class UserNode final : public CustomNode {
 public:
  // Takes over `state`, also when it throws. Modes are changed until finish or abort.
  static NodeRef begin(const cograd_function& function, void* state, const cograd_tensor* inputs,
                       size_t n);
  ~UserNode() override;

  std::string name() const override { return function_.name; }
  std::string describe_input(size_t i) const override {
    return detail::concat("its tensor argument ", i);
  }
  void release_saved() noexcept override;

  // Joins the outputs to the graph, in place of those given.
  void finish(std::span<Tensor> outputs);
  void abort() noexcept { open_.reset(); }

  bool recording() const noexcept { return open_ ? open_->call.recording() : !edges().empty(); }
  void save(TensorList tensors);
  // Kept so far: what forward gave, or what backward may ask for.
  size_t count_saved() const noexcept { return open_ ? open_->saved.size() : num_saved(); }
  Tensor saved_or_kept(size_t i);
  void mark_dirty(TensorList tensors);
  void mark_non_differentiable(TensorList tensors);
  bool needs_input_grad(size_t i) const;
  void set_state(void* state, void (*destroy)(void*)) noexcept;
  void* state() const noexcept { return state_; }
  // The op whose call this is, where the op is registered with function pointers.
  void set_call_data(const void* op) noexcept { call_data_ = op; }
  const void* call_data() const noexcept { return call_data_; }

 protected:
  void call_backward(BackwardArgs& args) override;

 private:
  // What is kept from begin to finish. Tensors are held: results are compared with them.
  struct Open {
    explicit Open(CustomNode& node) : call(node) {}
    SmallVec<Tensor, 2> inputs, saved;
    SmallVec<Tensor, 1> dirty, non_differentiable;
    CustomCall call;
  };

  UserNode(const cograd_function& function, void* state);
  Open& in_forward(const char* what);

  cograd_function function_{};
  void* state_;
  void (*destroy_)(void*) = nullptr;
  const void* call_data_ = nullptr;
  std::optional<Open> open_;
};

inline UserNode* node_of(cograd_context c) noexcept { return reinterpret_cast<UserNode*>(c); }
inline cograd_context handle(UserNode* n) noexcept { return reinterpret_cast<cograd_context>(n); }

}  // namespace cograd::api
