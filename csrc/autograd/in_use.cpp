// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/in_use.h"

#include <pthread.h>

#include "autograd/engine.h"
#include "autograd/saved_tensor.h"

namespace cograd {

#ifdef Py_GIL_DISABLED
constinit thread_local InUse* InUse::newest = nullptr;
#else
constinit InUse* InUse::newest = nullptr;
#endif

namespace {
constinit thread_local const UnpacksSaved* t_unpacks = nullptr;
}  // namespace

UnpacksSaved::UnpacksSaved(Node* owner) noexcept
    : owner_(owner), before_(std::exchange(t_unpacks, this)) {}
UnpacksSaved::~UnpacksSaved() { t_unpacks = before_; }

struct InUseChain {
  // The name of a call of this thread that uses `t`; null if there is none.
  static const char* here(const TensorImpl* t, bool but_innermost) noexcept {
    for (const InUse* u = InUse::newest; u != nullptr; u = u->before_) {
      if (u->thread_ != &thread_state) continue;
      if (!std::exchange(but_innermost, false) && u->has(t)) return u->name();
    }
    return nullptr;
  }
  static bool elsewhere(const TensorImpl* t) noexcept {
    for (const InUse* u = InUse::newest; u != nullptr; u = u->before_)
      if (u->thread_ != &thread_state && u->has(t)) return true;
    return false;
  }
  // A node whose backward, on this thread, is about to read `t`.
  static Node* reader(const TensorImpl* t) noexcept {
    if (t_unpacks != nullptr)
      for (const Tensor& g : running_gradients())
        if (g.impl() == t) return running_node();
    for (const UnpacksSaved* u = t_unpacks; u != nullptr; u = u->before_)
      for (size_t i = 0; i < u->owner_->num_saved(); ++i)
        if (u->owner_->saved_slot(i)->raw().impl() == t) return u->owner_;
    return nullptr;
  }
  // A child has the calls of the thread that forked only.
  static void after_fork_in_child() {
    InUse* after = nullptr;
    for (InUse* u = InUse::newest; u != nullptr; u = u->before_) {
      if (u->thread_ != &thread_state) continue;
      (after != nullptr ? after->before_ : InUse::newest) = u;
      u->after_ = after;
      after = u;
    }
    (after != nullptr ? after->before_ : InUse::newest) = nullptr;
  }
};

namespace {
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, InUseChain::after_fork_in_child);
}  // namespace

void check_not_in_use(const TensorImpl* t, const char* what, bool by_innermost) {
  if (const char* call = InUseChain::here(t, by_innermost))
    detail::fail(ErrorKind::Runtime, what, ": the tensor is an argument of ", call,
                 "(), which is under way and has called this code (a hook, a finalizer, a handler "
                 "of signals or warnings). Change it afterwards, or change a detach() of it.");
  if (Node* node = InUseChain::reader(t))
    detail::fail(ErrorKind::Runtime, what, ": the tensor was saved by ", node->name(),
                 " or is a gradient that it got, and its backward is under way and has called this "
                 "hook. Change it afterwards.");
}

bool in_use_elsewhere(const TensorImpl* t) noexcept { return InUseChain::elsewhere(t); }

}  // namespace cograd
