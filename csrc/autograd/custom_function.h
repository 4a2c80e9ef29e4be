// SPDX-License-Identifier: BSD-3-Clause
// Custom functions, whatever language they are written in: one way to make a call (CustomCall) and
// one kind of node (CustomNode). A language adds how the user's code is called.
#pragma once
#include "autograd/custom_samples.h"
#include "autograd/error_node.h"
#include "autograd/levels.h"
#include "autograd/saved_tensor.h"

namespace cograd {

class CustomCall;

struct COGRAD_API SavedSlot {
  enum class Kind : uint8_t { None, Input, Output, Constant, Intermediate } kind = Kind::None;
  SavedTensor tensor;

  // The tensor again; `index` is the slot's, for messages.
  Tensor unpack(Node* owner, size_t index);
};

class COGRAD_API CustomNode : public Node {
 public:
  void backward(BackwardArgs& args) final;
  void release_saved() noexcept override;
  size_t num_saved() const noexcept override { return saved_.size(); }
  SavedTensor* saved_slot(size_t i) noexcept override { return &saved_[i].tensor; }
  void visit(GraphVisitor& v) const override;

  // Tensor arguments, None among them: each has an edge if the call was recorded.
  size_t num_inputs() const noexcept { return needs_.size(); }
  // Values that forward returned, whether tensors or not.
  size_t num_returned() const noexcept { return returned_; }
  // Whether the gradient of input i is asked for: by the run on this thread, or else ever.
  bool needs_input(size_t i) const noexcept;
  // Whether this thread is in this node's backward: several threads may be at a time.
  bool running() const noexcept;
  Tensor saved(size_t i) {
    Tensor t = saved_[i].unpack(this, i);
    return frames_ == nullptr ? t : saved_of_samples(std::move(t), i);
  }
  // A tensor that forward kept by itself, as the backward or jvp that runs here sees it.
  Tensor seen_here(const Tensor& t) const;
  // Sizes and dtype of input i, of a call with tangents.
  const OutputMeta& input_meta(size_t i) const noexcept { return (*inputs_)[i]; }
  LevelId called_at() const noexcept { return called_at_; }
  bool materializes_grads() const noexcept { return materialize_; }
  // Whether undefined gradients reach the user's backward as zeros.
  void set_materialize_grads(bool value) noexcept { materialize_ = value; }
  // What messages call the function: "Linear" where the node is "LinearBackward".
  virtual std::string function_name() const { return name(); }
  // "argument 'weight' (position 2) of Linear.forward": input i in messages.
  virtual std::string describe_input(size_t i) const = 0;
  // Whether the user gave a rule for tangents; without one they come from backward.
  virtual bool has_jvp() const { return false; }
  virtual bool has_backward() const { return true; }
  // Whether forward, backward and jvp run on tensors that have samples of a vmap.
  virtual bool takes_samples() const { return false; }
  // "Add\n  static ... jvp(...)": the rule to write, for messages that ask for one.
  virtual std::string jvp_to_write() const = 0;
  // `g`, whose own derivative raises: it was computed without recording.
  Tensor once_differentiable(const Tensor& g) const;

 protected:
  // Calls the user's backward on args.grads and fills args.out by set_gradient.
  virtual void call_backward(BackwardArgs& args) = 0;
  // The user's rule: from the inputs' tangents (undefined: none) those of the outputs.
  virtual std::vector<Tensor> call_jvp(std::vector<Tensor> tangents);
  // `index` is the gradient's number in messages.
  void set_gradient(BackwardArgs& args, size_t input, Tensor g, size_t index) const;

 private:
  friend class CustomCall;
  void backward_of_handles(BackwardArgs& args);
  std::vector<Tensor> tangents(std::span<const Tensor> given);
  Tensor saved_of_samples(Tensor t, size_t i) const;
  SampleFrames& frames();
  SmallVec<bool, 4> needs_;
  std::unique_ptr<SampleFrames> frames_;             // of a call on handles
  std::unique_ptr<std::vector<OutputMeta>> inputs_;  // of a call with tangents
  SmallVec<SavedSlot, 2> saved_;
  uint32_t returned_ = 0;
  bool materialize_ = true;
  LevelId called_at_ = 0;  // the outermost level at which an input had a tangent
};

// What forward declared about its tensors; borrowed.
struct Declared {
  std::span<TensorImpl* const> dirty, non_differentiable;
  std::span<TensorImpl* const> saved;  // null: None
};

// One call: add_input for each tensor argument, connect, enter, forward, leave, finish,
// give_tangents.
class COGRAD_API CustomCall {
 public:
  explicit CustomCall(CustomNode& node) noexcept : node_(node) {}
  ~CustomCall() { leave(); }
  CustomCall(const CustomCall&) = delete;
  CustomCall& operator=(const CustomCall&) = delete;

  // Null: None. Borrowed until the call ends.
  void add_input(TensorImpl* t) {
    if (t != nullptr && (t->flags & kBatched) != 0) [[unlikely]]
      t = memory_of_input(t);
    const bool need = t != nullptr && requires_grad(t);
    any_ |= need;
    node_.needs_.push_back(need);
    inputs_.push_back(t);
    versions_.push_back(t != nullptr ? t->current_version() : 0);
  }
  // All inputs are there: decides whether the call is recorded, and makes the edges.
  void connect();
  // Whether forward's tensors are to be kept for backward or for tangents.
  bool recording() const noexcept { return recording_; }
  // From enter to leave nothing is recorded.
  void enter() noexcept;
  void leave() noexcept;
  // Joins what forward returned to the graph: `outputs` (undefined where no tensor) become what
  // the caller is given. A tensor that needs nothing stays the same object.
  void finish(std::span<Tensor> outputs, const Declared& declared) {
    if (thread_state.vmaps > 0) [[unlikely]]
      return finish_handles(outputs, declared);
    finish_wholes(outputs, declared);
  }
  // Afterwards, with what backward reads in its place: the tangents of the outputs, if any. Then
  // saved-tensor hooks see what was saved.
  void give_tangents(std::span<Tensor> outputs, const Declared& declared) {
    if (!levels_.empty()) [[unlikely]]
      give_tangents_at_levels(outputs, declared);
    if (recording_ && thread_state.saved_hooks != nullptr) [[unlikely]]
      pack_saved(node_);
  }
  bool untouched(TensorImpl* t) const noexcept;  // an input that nothing is known to have written
  bool is_input(const TensorImpl* t) const noexcept;

 private:
  using Impls = SmallVec<TensorImpl*, 4>;
  void check_dirty(const Declared& declared, const Impls& outputs) const;
  void check_dirty_view(const Tensor& t, const Impls& outputs) const;
  void check_unmarked_writes(const Declared& declared) const;
  Tensor join(Tensor t, uint32_t nr, size_t views, const Declared& declared);
  Tensor join_input(const Tensor& t, uint32_t nr);
  void keep(const Declared& declared, const Impls& before, std::span<Tensor> after);
  // Functions that run on handles (custom_handles.cpp).
  TensorImpl* memory_of_input(TensorImpl* handle);
  void finish_wholes(std::span<Tensor> outputs, const Declared& declared);
  void finish_handles(std::span<Tensor> outputs, const Declared& declared);
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
  std::vector<std::shared_ptr<TangentLevel>> levels_;  // at which an input has a tangent
  bool any_ = false, recording_ = false, entered_ = false;
  bool joins_ = false;  // outputs become part of the graph
  bool grad_before_ = false, taint_before_ = false;
  LevelId ceiling_before_ = 0;
};

// An intermediate of forward while a graph is made: its part of a second derivative would be
// missing, so a gradient that flows into it raises.
COGRAD_API Tensor poisoned_intermediate(Node* owner, const Tensor& t, const std::string& what);
// Whether forward computed `t` from its differentiable inputs, and did not return it.
COGRAD_API bool is_intermediate(const Tensor& t) noexcept;
// Such a tensor as the backward or jvp that runs may use it. Raises where a level of forward mode
// around it would need its tangent.
COGRAD_API Tensor guarded_intermediate(CustomNode& owner, const Tensor& t, const std::string& what);

}  // namespace cograd
