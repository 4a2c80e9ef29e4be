// SPDX-License-Identifier: BSD-3-Clause
// Records the arguments of running ops. They must keep their memory and geometry while user code
// runs inside the op (hooks, finalizers, handlers of signals and warnings) or on other threads.
#pragma once
#include "autograd/graph/node.h"

namespace cograd {

// The tensors that a running call uses: a link in the chain of this thread's calls. Calls from
// Python create and destroy it with the interpreter lock held, which also guards other threads'
// chains.
class COGRAD_API InUse {
 public:
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 protected:
  // A table of functions, which costs each call less than virtual functions.
  struct Kind {
    bool (*has)(const InUse*, const TensorImpl*) noexcept;
    const char* (*name)(const InUse*) noexcept;
  };
  explicit InUse(const Kind& kind) noexcept : kind_(&kind), before_(newest) {
    if (before_ == nullptr) [[unlikely]]
      before_ = first_of_thread();
    newest = this;
  }
  InUse(const Kind& kind, std::nullptr_t) noexcept : kind_(&kind), before_(nullptr) {}  // chain end
  ~InUse() {
    if (newest == this) [[likely]]
      newest = before_;
    else
      leave_chain();  // a call on another stack of this thread, such as a greenlet's, began later
  }

 private:
  friend struct InUseChain;
  bool has(const TensorImpl* t) const noexcept { return kind_->has(this, t); }
  // Returns the end of every chain, and makes this thread's chain known to other threads.
  static InUse* first_of_thread() noexcept;
  void leave_chain() noexcept;

  static constinit thread_local InUse* newest __attribute__((tls_model("initial-exec")));
  const Kind* kind_;
  InUse* before_;
};

// Marks, in its scope, that hooks unpack saved tensors of `owner` on this thread.
class UnpacksSaved {
 public:
  explicit UnpacksSaved(Node* owner) noexcept;
  ~UnpacksSaved();
  UnpacksSaved(const UnpacksSaved&) = delete;
  UnpacksSaved& operator=(const UnpacksSaved&) = delete;

 private:
  friend struct InUseChain;
  Node* owner_;
  const UnpacksSaved* before_;
};

// Called before `t` gets other memory or another geometry: raises, naming `what`, if this thread is
// inside a call that uses `t`. With `by_innermost` the innermost call, which makes the change, does
// not count.
COGRAD_API void check_not_in_use(const TensorImpl* t, const char* what, bool by_innermost);
// True if a call on another thread uses `t`.
COGRAD_API bool in_use_elsewhere(const TensorImpl* t) noexcept;

}  // namespace cograd
