// SPDX-License-Identifier: BSD-3-Clause
// UserNode: the call, and later the graph node, of a custom function of the C interface.
#pragma once
#include <optional>

#include "api/handles.h"
#include "transforms/custom_function.h"

namespace cograd {

struct ForeignOp;

namespace api {

class UserNode final : public CustomNode {
 public:
  // Begins a call and takes over `state`, even if it throws. Recording is off until finish or
  // abort. Returns null if inputs are batched and the function has `batch` or `call` for them.
  static NodeRef begin(const cograd_function& function, void* state, const cograd_tensor* inputs,
                       size_t n);
  ~UserNode() override;

  std::string name() const override { return function_.name; }
  std::string describe_input(size_t i) const override {
    return detail::concat("its tensor argument ", i);
  }
  std::string function_name() const override;
  std::string jvp_to_write() const override;
  bool has_jvp() const override { return function_.jvp != nullptr; }
  bool has_backward() const override { return function_.backward != nullptr; }
  bool accepts_batched() const override {
    return (function_.flags & COGRAD_FUNCTION_TAKES_SAMPLES) != 0;
  }
  void release_saved() noexcept override;

  // Connects the outputs to the graph, and replaces them by the tensors to return.
  void finish(std::span<Tensor> outputs);
  void abort() noexcept { open_.reset(); }

  bool recording() const noexcept { return open_ ? open_->call.recording() : !edges().empty(); }
  void save(TensorList tensors);
  // Number of tensors saved so far by forward, or available to backward.
  size_t count_saved() const noexcept { return in_forward() ? open_->saved.size() : num_saved(); }
  Tensor saved_or_kept(size_t i);
  void save_for_forward(TensorList tensors);
  size_t count_saved_for_forward() const noexcept {
    return open_ ? open_->saved_for_forward.size() : 0;
  }
  Tensor saved_for_forward(size_t i) const;
  void mark_dirty(TensorList tensors);
  void mark_non_differentiable(TensorList tensors);
  bool needs_input_grad(size_t i) const;
  void set_state(void* state, void (*destroy)(void*)) noexcept;
  void* state() const noexcept { return state_; }
  // The op that is called, if it was registered with function pointers.
  void set_call_data(const ForeignOp* op) noexcept { call_data_ = op; }
  const ForeignOp* call_data() const noexcept { return call_data_; }

 protected:
  void call_backward(BackwardArgs& args) override;
  std::vector<Tensor> call_jvp(std::vector<Tensor> tangents) override;

 private:
  // State from begin to finish. It owns the tensors, because results are compared with them.
  struct Open {
    explicit Open(CustomNode& node) : call(node) {}
    SmallVec<Tensor, 2> inputs, saved;
    SmallVec<Tensor, 1> dirty, non_differentiable, saved_for_forward;
    CustomCall call;
    bool joined = false;  // the node now has everything that backward reads
  };

  UserNode(const cograd_function& function, void* state);
  bool in_forward() const noexcept { return open_ && !open_->joined; }
  Open& in_forward(const char* what);

  cograd_function function_{};
  void* state_;
  void (*destroy_)(void*) = nullptr;
  const ForeignOp* call_data_ = nullptr;
  std::optional<Open> open_;
};

inline UserNode* node_of(cograd_context c) noexcept { return reinterpret_cast<UserNode*>(c); }
inline cograd_context handle(UserNode* n) noexcept { return reinterpret_cast<cograd_context>(n); }

// Returns the function's name in messages: "Cube" if the node is "CubeBackward".
std::string plain_name(const cograd_function& function);

}  // namespace api
}  // namespace cograd
