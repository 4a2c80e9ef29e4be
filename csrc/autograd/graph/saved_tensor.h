// SPDX-License-Identifier: BSD-3-Clause
// SavedTensor: a tensor saved for backward, either plain with its version or packed by hooks. An
// output of the saving node is saved without its history, so that it forms no cycle with the node.
#pragma once
#include "autograd/graph/variable.h"

namespace cograd {

class Tangent;

// The value that a pack hook returned for one tensor. The layer that offers hooks derives from it.
class COGRAD_API Packed {
 public:
  virtual ~Packed() = default;
  // Returns the value if it is a tensor: an enclosing hook then packs it in turn and calls drop().
  virtual Tensor tensor() const { return {}; }
  virtual void drop() noexcept {}
  // Calls the unpack hook and returns its tensor. Its argument is `value`, which an enclosing hook
  // unpacked, or the stored value if there is no such hook.
  virtual Tensor unpack(const Tensor& value) = 0;
  virtual void visit(GraphVisitor&) const {}
};

// A pair of hooks. pack() runs with recording off and outside of any lock.
class COGRAD_API SavedHook {
 public:
  virtual ~SavedHook() = default;
  virtual std::unique_ptr<Packed> pack(const Tensor& t) = 0;
};

// A scope of active hooks; the innermost pair is called. Reference-counted: a thread owns its
// innermost scope, each scope owns the enclosing one, and a running hook's call owns its scope.
struct SavedHookScope {
  std::shared_ptr<SavedHook> hook;
  SavedHookScope* outer;  // owned
  bool compose;           // the enclosing pair packs the result of this one
  std::atomic<uint32_t> refs{1};
};
// Raises if hooks are disabled on this thread.
COGRAD_API void push_saved_hook(std::shared_ptr<SavedHook> hook, bool compose);
COGRAD_API void pop_saved_hook() noexcept;
// These accept null.
SavedHookScope* retain_hooks(SavedHookScope* s) noexcept;
void release_hooks(SavedHookScope* s) noexcept;
// Makes push_saved_hook() raise this message on this thread; null allows hooks again. Sets `was`
// and `previous` to the former state.
COGRAD_API void disable_saved_hooks(const std::string* message, bool* was, std::string* previous);

// A saved tensor that hooks packed, with the data that restores its history.
struct COGRAD_API PackedSlot {
  std::atomic<uint32_t> refs{1};
  std::vector<std::unique_ptr<Packed>> layers;  // innermost hook first
  Edge edge;                                    // gradient edge of a saved input; owned
  bool is_output = false;
  bool dense = false;  // the original has no gaps; formulas may rely on its strides
  uint32_t output_nr = 0;
  DType dtype = DType::Float32;
  Device device = kHost;
  Dims sizes, strides;
  std::unique_ptr<KeptTangents> tangents;  // of the original; null if it has none
  PackedSlot();
  ~PackedSlot();
  void release() noexcept;
  Tensor unpack(Node* owner);

 private:
  Tensor unpacked_values(Node* owner);
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
  // Saves an input, or any tensor but an output of the saving node. Hooks see it at pack().
  void save(const Tensor& t) {
    if (t.defined()) {
      if ((t->flags & kInference) != 0) [[unlikely]]
        fail_inference();
      ids_.version = t->current_version();
    }
    tensor_ = t;
    is_output_ = false;
  }
  // Saves an output of the saving node without its history, which unpacking attaches again.
  void save_output(const Tensor& t, uint32_t output_nr = 0) {
    tensor_ = Tensor::steal(t->alias());
    ids_ = {t->current_version(), output_nr};
    is_output_ = true;
  }
  // Passes the saved tensor to the hooks, if any are active. Call this once the values are final
  // and the tensor has its tangents. It may throw, so in-place ops call it last.
  void pack() {
    if (thread_state.saved_hooks != nullptr && !packed_state_ && tensor_.defined()) [[unlikely]]
      pack_by_hooks();
  }
  // Called after an in-place op that saved its output here: the output's values are now in `self`.
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
  // Returns a packed copy of a slot without hooks, because the hook may change this slot.
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

// Returns the tensor that `owner` saved; raises if it was written in place since. Undefined if
// nothing was saved. Takes owner's lock, but calls hooks without it.
COGRAD_API Tensor unpack_saved(Node* owner, SavedTensor& s);
[[noreturn]] COGRAD_API void fail_released(const Node* owner);

// Like unpack_saved, for slot `index` in a call of backward: each hook runs once per call.
COGRAD_API Tensor unpack_once(Node* owner, SavedTensor& s, size_t index, BackwardArgs& args);
// Passes all tensors that `node` saved to the hooks of this thread.
COGRAD_API void pack_saved(Node& node);

// Returns an alias of `t` that keeps the current grad_fn even if `t` is written later. Returns `t`
// itself if it is a leaf that requires grad.
COGRAD_API Tensor with_history(const Tensor& t);
// Returns a tensor to save in place of `t` for an op that needs the values that `t` has now: as in
// torch, `t.data = y` affects a saved leaf, but it does not affect this view.
COGRAD_API Tensor fixed_view(const Tensor& t);
// Raises if `view` is the fixed_view() of a tensor that got new data (`t.data = y`) and was then
// written.
COGRAD_API void check_fixed_view(Node* owner, const Tensor& view);

}  // namespace cograd
