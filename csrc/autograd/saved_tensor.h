// SPDX-License-Identifier: BSD-3-Clause
// SavedTensor: a tensor kept for backward, with the version it had or as pack hooks made it; never
// part of a cycle.
#pragma once
#include "autograd/variable.h"

namespace cograd {

class Tangent;

// What a pack hook made of one tensor. Derived by whoever offers hooks.
class COGRAD_API Packed {
 public:
  virtual ~Packed() = default;
  // The value, if it is a tensor: an enclosing hook packs that in turn and calls drop().
  virtual Tensor tensor() const { return {}; }
  virtual void drop() noexcept {}
  // The tensor again: from `value` if an enclosing hook gave it back, else from what is kept.
  virtual Tensor unpack(const Tensor& value) = 0;
  virtual void visit(GraphVisitor&) const {}
};

// A pair of hooks. pack() runs with recording off and outside of any lock.
class COGRAD_API SavedHook {
 public:
  virtual ~SavedHook() = default;
  virtual std::unique_ptr<Packed> pack(const Tensor& t) = 0;
};

// The hooks that are active on this thread, innermost first; the innermost pair is called.
// Counted: a thread refers to its innermost, each to the next outside, a call to the one it calls.
struct SavedHookScope {
  std::shared_ptr<SavedHook> hook;
  SavedHookScope* outer;  // owned
  bool compose;           // the next pair outside packs what this one made
  std::atomic<uint32_t> refs{1};
};
// Raises if hooks are disabled on this thread.
COGRAD_API void push_saved_hook(std::shared_ptr<SavedHook> hook, bool compose);
COGRAD_API void pop_saved_hook() noexcept;
// Null is no scope.
SavedHookScope* retain_hooks(SavedHookScope* s) noexcept;
void release_hooks(SavedHookScope* s) noexcept;
// Hooks are refused with this message; null allows them. Returns the former state in `previous`.
COGRAD_API void disable_saved_hooks(const std::string* message, bool* was, std::string* previous);

// A saved tensor in the hands of hooks, and what is needed to give its history back.
struct COGRAD_API PackedSlot {
  std::atomic<uint32_t> refs{1};
  std::vector<std::unique_ptr<Packed>> layers;  // innermost hook first
  Edge edge;                                    // of the original; owned; null for outputs
  bool is_output = false;
  bool dense = false;  // formulas may rely on the strides of a tensor without gaps
  uint32_t output_nr = 0;
  DType dtype = DType::Float32;
  Dims sizes, strides;
  std::vector<std::unique_ptr<Tangent>> tangents;  // of the original: hooks may return values only
  PackedSlot();
  ~PackedSlot();
  void release() noexcept;
  void keep_tangents(const Tensor& t);
  Tensor unpack(Node* owner);

 private:
  Tensor unpacked_values(Node* owner);
  bool lacks_tangent(const Tensor& t) const;
  void give_tangents(const Tensor& t) const;
};

class COGRAD_API SavedTensor {
 public:
  SavedTensor() noexcept : ids_{0, 0} {}
  SavedTensor(const SavedTensor&) = delete;
  SavedTensor& operator=(const SavedTensor&) = delete;
  SavedTensor(SavedTensor&& o) noexcept : SavedTensor() { swap(o); }
  ~SavedTensor() {
    if (packed_state_) [[unlikely]]
      packed_->release();
  }
  void swap(SavedTensor& o) noexcept {
    tensor_.swap(o.tensor_);
    std::swap(packed_, o.packed_);  // the widest member of the union
    std::swap(is_output_, o.is_output_);
    std::swap(packed_state_, o.packed_state_);
  }
  // Keeps an input (or any tensor that is not made by the saving node). Hooks see it at pack().
  void save(const Tensor& t) {
    if (t.defined()) {
      if ((t->flags & kInference) != 0) [[unlikely]]
        fail_inference();
      ids_.version = t->current_version();
    }
    tensor_ = t;
    is_output_ = false;
  }
  // Keeps an output of the saving node: its bytes without its history, re-attached on unpack.
  void save_output(const Tensor& t, uint32_t output_nr = 0) {
    tensor_ = Tensor::steal(t->alias());
    ids_ = {t->current_version(), output_nr};
    is_output_ = true;
  }
  // Hands what is saved to the hooks, if any are active. To be called when the values are final
  // and the tensor has its tangents. May throw: in-place ops do this when all else is done.
  void pack() {
    if (thread_state.saved_hooks != nullptr && !packed_state_ && tensor_.defined()) [[unlikely]]
      pack_by_hooks();
  }
  // After an in-place op whose output this is: `self` holds the values now.
  void follow_inplace(const Tensor& self) {
    if (!is_output_ || packed_state_) return;
    if (tensor_->storage != self->storage) tensor_ = Tensor::steal(self->alias());
    ids_.version = tensor_->current_version();
  }
  bool is_output() const noexcept { return is_output_; }
  bool packed() const noexcept { return packed_state_; }
  bool defined() const noexcept { return packed_state_ || tensor_.defined(); }
  // The tensor of a slot without hooks.
  const Tensor& raw() const noexcept { return tensor_; }
  // The hooks' value of a slot with hooks; null otherwise.
  PackedSlot* packed_slot() const noexcept { return packed_state_ ? packed_ : nullptr; }
  // What a slot without hooks becomes with one; the hook may do anything to the slot meanwhile.
  SavedTensor with_hook(const std::shared_ptr<SavedHook>& hook) const;
  void visit(GraphVisitor& v) const {
    if (packed_state_) [[unlikely]]
      visit_packed(v);
    else if (tensor_.defined())
      v.tensor(tensor_.impl());
  }

 private:
  friend COGRAD_API Tensor unpack_saved(Node* owner, SavedTensor& s);
  [[noreturn]] static void fail_inference();
  void pack_by_hooks();
  void pack_with(const Tensor& t, bool output, SavedHookScope* scope);
  void visit_packed(GraphVisitor& v) const;

  Tensor tensor_;
  struct Ids {
    uint32_t version, output_nr;
  };
  union {
    Ids ids_;             // of a plain tensor
    PackedSlot* packed_;  // owned
  };
  bool is_output_ = false;
  bool packed_state_ = false;
};

// The saved tensor again, checked against in-place writes; `owner` saved it. Undefined if nothing
// was saved. Takes owner's lock, but calls hooks outside of it.
COGRAD_API Tensor unpack_saved(Node* owner, SavedTensor& s);
[[noreturn]] COGRAD_API void fail_released(const Node* owner);

// The same for slot `index` of a call of backward, which hooks are asked for once.
COGRAD_API Tensor unpack_once(Node* owner, SavedTensor& s, size_t index, BackwardArgs& args);
// Hands all that `node` saved to the hooks of this thread.
COGRAD_API void pack_saved(Node& node);

// The values of `t` with the history that it has now, which writes to `t` change; a leaf itself.
COGRAD_API Tensor with_history(const Tensor& t);
// To be saved in place of `t`, for an op that uses the values it had: `t.data = y` changes a saved
// leaf, as in torch, but not this view of it.
COGRAD_API Tensor fixed_view(const Tensor& t);
// Raises if the tensor behind such a view was given new data and then written.
COGRAD_API void check_fixed_view(Node* owner, const Tensor& view);

}  // namespace cograd
