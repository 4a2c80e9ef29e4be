// SPDX-License-Identifier: BSD-3-Clause
// What ops under way read: their arguments must keep their memory and geometry, whatever code of
// the user's runs inside of them (hooks, finalizers, handlers of signals and warnings) or beside.
#pragma once
#include "autograd/node.h"

namespace cograd {

// A list of what a call uses. Made and ended in calls from Python, with the interpreter's lock
// held, which guards the chain of them; without such a lock a chain is one thread's.
class COGRAD_API InUse {
 public:
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 protected:
  InUse() noexcept : before_(newest) {
    if (before_ != nullptr) before_->after_ = this;
    newest = this;
  }
  ~InUse() {
    (after_ != nullptr ? after_->before_ : newest) = before_;
    if (before_ != nullptr) before_->after_ = after_;
  }

 private:
  friend struct InUseChain;
  virtual bool has(const TensorImpl* t) const noexcept = 0;
  virtual const char* name() const noexcept = 0;

#ifdef Py_GIL_DISABLED
  static constinit thread_local InUse* newest;
#else
  static constinit InUse* newest;
#endif
  InUse* before_;
  InUse* after_ = nullptr;
  const void* thread_ = &thread_state;
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
