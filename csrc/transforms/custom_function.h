// SPDX-License-Identifier: BSD-3-Clause
// Custom functions in any language: CustomCall makes a call, CustomNode is its graph node. The
// layer for a language derives from CustomNode and calls the user's code.
#pragma once
#include "autograd/graph/error_node.h"
#include "autograd/graph/saved_tensor.h"
#include "transforms/custom_samples.h"
#include "transforms/levels.h"

namespace cograd {

class CustomCall;

struct COGRAD_API SavedSlot {
  enum class Kind : uint8_t { None, Input, Output, Constant, Intermediate } kind = Kind::None;
  SavedTensor tensor;

  // Returns the saved tensor; `index` is the slot's position, for messages.
  Tensor unpack(Node* owner, size_t index);
};

class COGRAD_API CustomNode : public Node {
 public:
  void backward(BackwardArgs& args) final;
  void release_saved() noexcept override;
  size_t num_saved() const noexcept override { return saved_.size(); }
  SavedTensor* saved_slot(size_t i) noexcept override { return &saved_[i].tensor; }
  void visit(GraphVisitor& v) const override;

  // Number of tensor arguments, None included; each has an edge if the call was recorded.
  size_t num_inputs() const noexcept { return needs_.size(); }
  // Number of values that forward returned, tensors or not.
  size_t num_returned() const noexcept { return returned_; }
  // True if the backward that runs on this thread needs the gradient of input i. Outside of a
  // backward, true if the input required grad.
  bool needs_input(size_t i) const noexcept;
  // True if this thread runs this node's backward; other threads may do so at the same time.
  bool running() const noexcept;
  Tensor saved(size_t i) {
    Tensor t = saved_[i].unpack(this, i);
    return frames_ == nullptr ? t : saved_of_samples(std::move(t), i);
  }
  // Returns a tensor that forward kept itself (not by saving it) as the running backward or jvp
  // must see it: batched at the vmap levels that are open now.
  Tensor rewrapped_here(const Tensor& t) const;
  // Sizes and dtype of input i; only known if the call had tangents.
  const OutputMeta& input_meta(size_t i) const noexcept { return (*inputs_)[i]; }
  // Returns the outermost dual level at which an input had a tangent; 0 if none had one.
  LevelId called_at() const noexcept { return called_at_; }
  bool materializes_grads() const noexcept { return materialize_; }
  // Sets whether the user's backward gets zeros in place of undefined gradients.
  void set_materialize_grads(bool value) noexcept { materialize_ = value; }
  // The function's name in messages: "Linear" if the node is "LinearBackward".
  virtual std::string function_name() const { return name(); }
  // Describes input i in messages: "argument 'weight' (position 2) of Linear.forward".
  virtual std::string describe_input(size_t i) const = 0;
  // True if the user defined a jvp; otherwise tangents are derived from backward.
  virtual bool has_jvp() const { return false; }
  virtual bool has_backward() const { return true; }
  // True if forward, backward and jvp accept batched tensors.
  virtual bool accepts_batched() const { return false; }
  // The declaration of the jvp to write, "static ... jvp(...)", for messages that ask for one.
  virtual std::string jvp_to_write() const = 0;
  // Returns `g`, which was computed without recording, with a history that raises in backward.
  Tensor once_differentiable(const Tensor& g) const;

 protected:
  // Calls the user's backward on args.grads and fills args.out by set_gradient.
  virtual void call_backward(BackwardArgs& args) = 0;
  // Calls the user's jvp with the inputs' tangents (undefined: none); returns those of the outputs.
  virtual std::vector<Tensor> call_jvp(std::vector<Tensor> tangents);
  // Checks and stores the gradient of an input; `index` is the gradient's position in messages.
  void set_gradient(BackwardArgs& args, size_t input, Tensor g, size_t index) const;

 private:
  friend class CustomCall;
  // Calls the user's backward; its gradients raise where they depend on elements that it read.
  void call_recorded(BackwardArgs& args);
  void backward_of_handles(BackwardArgs& args);
  std::vector<Tensor> tangents(std::span<const Tensor> given);
  Tensor saved_of_samples(Tensor t, size_t i) const;
  VmapFrames& frames();
  SmallVec<bool, 4> needs_;
  std::unique_ptr<VmapFrames> frames_;               // set if the call had batched tensors
  std::unique_ptr<std::vector<OutputMeta>> inputs_;  // set if the call had tangents
  SmallVec<SavedSlot, 2> saved_;
  uint32_t returned_ = 0;
  bool materialize_ = true;
  LevelId called_at_ = 0;
};

// The tensors that forward declared (by mark_dirty and mark_non_differentiable) or saved; borrowed.
struct Declared {
  std::span<TensorImpl* const> dirty, non_differentiable;
  std::span<TensorImpl* const> saved;  // null stands for None
};

// One call of a custom function. The order of calls is add_input for each tensor argument, connect,
// enter, the user's forward, leave, finish, set_tangents.
class COGRAD_API CustomCall {
 public:
  explicit CustomCall(CustomNode& node) noexcept : node_(node) {}
  ~CustomCall() { leave(); }
  CustomCall(const CustomCall&) = delete;
  CustomCall& operator=(const CustomCall&) = delete;

  // Adds a tensor argument, null for None. It is borrowed until the call ends.
  void add_input(TensorImpl* t) {
    if (t != nullptr && (t->flags & kBatched) != 0) [[unlikely]]
      t = memory_of_input(t);
    const bool need = t != nullptr && requires_grad(t);
    any_ |= need;
    node_.needs_.push_back(need);
    inputs_.push_back(t);
    versions_.push_back(t != nullptr ? t->current_version() : 0);
  }
  // Called after the last add_input: decides whether the call is recorded, and creates the edges.
  void connect();
  // True if tensors of forward must be kept for backward or for tangents.
  bool recording() const noexcept { return recording_; }
  // Nothing is recorded between enter and leave.
  void enter() noexcept;
  void leave() noexcept;
  // Connects forward's results to the graph: replaces `outputs` (undefined where a result is not a
  // tensor) by the tensors to return. A tensor that needs no change stays the same object.
  void finish(std::span<Tensor> outputs, const Declared& declared) {
    if (thread_state.vmaps > 0) [[unlikely]]
      return finish_batched(outputs, declared);
    finish_physical(outputs, declared);
  }
  // Called after finish, once everything that backward reads is in place: computes the tangents of
  // the outputs, if any, then passes the saved tensors to saved-tensor hooks.
  void set_tangents(std::span<Tensor> outputs, const Declared& declared) {
    if (!levels_.empty()) [[unlikely]]
      give_tangents_at_levels(outputs, declared);
    if (recording_ && thread_state.saved_hooks != nullptr) [[unlikely]]
      pack_saved(node_);
  }
  // True if `t` is an input whose version has not changed since add_input().
  bool untouched(TensorImpl* t) const noexcept;
  bool is_input(const TensorImpl* t) const noexcept;

 private:
  using Impls = SmallVec<TensorImpl*, 4>;
  void check_dirty(const Declared& declared, const Impls& outputs) const;
  void check_dirty_view(const Tensor& t, const Impls& outputs) const;
  void check_unmarked_writes(const Declared& declared) const;
  Tensor join(Tensor t, uint32_t nr, size_t views, const Declared& declared);
  Tensor join_input(const Tensor& t, uint32_t nr);
  void keep(const Declared& declared, const Impls& before, std::span<Tensor> after);
  // Functions that accept batched tensors (custom_handles.cpp).
  TensorImpl* memory_of_input(TensorImpl* handle);
  void finish_physical(std::span<Tensor> outputs, const Declared& declared);
  void finish_batched(std::span<Tensor> outputs, const Declared& declared);
  [[noreturn]] void fail_samples() const;
  // Forward mode (custom_tangent.cpp).
  void give_tangents_at_levels(std::span<Tensor> outputs, const Declared& declared);
  void find_levels();
  void want_tangents();
  std::vector<Tensor> tangents_at(const TangentLevel& level, std::span<const Tensor> given,
                                  std::span<const Tensor> outputs);

  CustomNode& node_;
  Impls inputs_;
  SmallVec<uint32_t, 4> versions_;
  // Dual levels at which an input has a tangent, outermost first.
  std::vector<std::shared_ptr<TangentLevel>> levels_;
  // any_: an input requires grad.
  bool any_ = false, recording_ = false, entered_ = false;
  bool joins_ = false;  // outputs become part of the graph
  // Modes of this thread that leave() restores.
  bool grad_before_ = false, taint_before_ = false;
  LevelId ceiling_before_ = 0;
};

// Returns `t`, an intermediate result of forward, with a history that raises when a gradient flows
// into it: its part of a second derivative would be missing.
COGRAD_API Tensor poisoned_intermediate(Node* owner, const Tensor& t, const std::string& what);
// True if forward computed `t` from its differentiable inputs and did not return it.
COGRAD_API bool is_intermediate(const Tensor& t) noexcept;
// Returns an intermediate result as the running backward or jvp may use it. Raises if a dual level
// around the rule would need its tangent.
COGRAD_API Tensor guarded_intermediate(CustomNode& owner, const Tensor& t, const std::string& what);

}  // namespace cograd
