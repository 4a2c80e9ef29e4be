// SPDX-License-Identifier: BSD-3-Clause
// What ops under way read: their arguments must keep their memory and geometry, whatever code of
// the user's runs inside of them (hooks, finalizers, handlers of signals and warnings) or beside.
#pragma once
#include "autograd/node.h"

namespace cograd {

// What a call uses. Made and ended in calls from Python, with the interpreter's lock held, which
// also guards the chains of other threads.
class COGRAD_API InUse {
 public:
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 protected:
  // What is asked of it; a table of functions costs a call less than a virtual one.
  struct Kind {
    bool (*has)(const InUse*, const TensorImpl*) noexcept;
    const char* (*name)(const InUse*) noexcept;
  };
  explicit InUse(const Kind& kind) noexcept : kind_(&kind), before_(newest) {
    if (before_ == nullptr) [[unlikely]]
      before_ = first_of_thread();
    newest = this;
  }
  InUse(const Kind& kind, std::nullptr_t) noexcept : kind_(&kind), before_(nullptr) {}  // the end
  ~InUse() {
    if (newest == this) [[likely]]
      newest = before_;
    else
      leave_chain();  // a call of another stack of this thread began later
  }

 private:
  friend struct InUseChain;
  bool has(const TensorImpl* t) const noexcept { return kind_->has(this, t); }
  // The end of every chain; this thread's chain is known to others from then on.
  static InUse* first_of_thread() noexcept;
  void leave_chain() noexcept;

  static constinit thread_local InUse* newest __attribute__((tls_model("initial-exec")));
  const Kind* kind_;
  InUse* before_;
};

// The node whose saved tensors hooks unpack on this thread.
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

// Before `t` gets other memory or another geometry: raises, naming `what`, if this thread is inside
// of a call that uses it, the innermost apart where it is that call which changes it.
COGRAD_API void check_not_in_use(const TensorImpl* t, const char* what, bool by_innermost);
// Whether a call of another thread uses it.
COGRAD_API bool in_use_elsewhere(const TensorImpl* t) noexcept;

}  // namespace cograd
