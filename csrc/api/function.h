// SPDX-License-Identifier: BSD-3-Clause
// UserNode: the graph node, and before that the call, of a custom function behind the C interface.
#pragma once
#include "api/handles.h"
#include "autograd/custom_function.h"

namespace cograd::api {

class UserNode final : public Node {
 public:
  // Takes over `state`, also when it throws. Modes are changed until finish or abort.
  static NodeRef begin(const cograd_function& function, void* state, TensorList inputs);
  ~UserNode() override;

  std::string name() const override { return function_.name; }
  void backward(BackwardArgs& args) override;
  void release_saved() noexcept override;
  size_t num_saved() const noexcept override { return saved_.size(); }
  SavedTensor* saved_slot(size_t i) noexcept override { return &saved_[i].tensor; }
  void visit(GraphVisitor& v) const override;

  // Joins the outputs to the graph, in place of those given.
  void finish(std::span<Tensor> outputs);
  void abort() noexcept { restore_modes(); }

  bool recording() const noexcept { return recording_; }
  void save(TensorList tensors);
  // Kept so far: what forward gave, or what backward may ask for.
  size_t count_saved() const noexcept { return in_forward_ ? to_save_.size() : saved_.size(); }
  Tensor saved(size_t i);
  void mark_dirty(TensorList tensors);
  void mark_non_differentiable(TensorList tensors);
  void set_materialize_grads(bool value) noexcept { materialize_ = value; }
  bool needs_input_grad(size_t i) const;
  void set_state(void* state, void (*destroy)(void*)) noexcept;
  void* state() const noexcept { return state_; }
  // The op whose call this is, where the op is registered with function pointers.
  void set_call_data(const void* op) noexcept { call_data_ = op; }
  const void* call_data() const noexcept { return call_data_; }

 private:
  UserNode(const cograd_function& function, void* state);
  void enter(TensorList inputs);
  void restore_modes() noexcept;
  void require_forward(const char* what) const;
  void join(std::span<Tensor> outputs);
  // Makes a derivative of these gradients raise.
  void poison(std::span<Tensor> gradients) const;

  cograd_function function_{};
  void* state_;
  void (*destroy_)(void*);
  const void* call_data_ = nullptr;
  std::vector<SavedSlot> saved_;
  SmallVec<Tensor, 2> to_save_;
  SmallVec<Tensor, 2> inputs_;  // kept until forward ends: results are compared with them
  SmallVec<bool, 4> input_needs_;
  SmallVec<uint32_t, 2> versions_;
  SmallVec<Tensor, 1> dirty_, non_differentiable_;
  bool in_forward_ = false, recording_ = false, materialize_ = true;
  bool grad_before_ = false, taint_before_ = false;
};

inline UserNode* node_of(cograd_context c) noexcept { return reinterpret_cast<UserNode*>(c); }
inline cograd_context handle(UserNode* n) noexcept { return reinterpret_cast<cograd_context>(n); }

}  // namespace cograd::api
