// SPDX-License-Identifier: BSD-3-Clause
// The chains of running calls, one per thread, and the searches in them.
#include "autograd/modes/in_use.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>

#include "autograd/graph/saved_tensor.h"
#include "autograd/run/engine.h"

namespace cograd {

constinit thread_local InUse* InUse::newest = nullptr;

struct InUseChain {
  class End final : public InUse {
   public:
    End() noexcept : InUse(kKind, nullptr) {}

   private:
    static constexpr Kind kKind{[](const InUse*, const TensorImpl*) noexcept { return false; },
                                [](const InUse*) noexcept { return ""; }};
  };
  // The chains of all threads that have made calls. Never freed: threads outlive static objects.
  struct All {
    std::mutex mutex;
    std::vector<InUse**> heads;
  };
  static All& all() {
    static auto* a = new All;
    return *a;
  }
  struct Registered {
    Registered() {
      const std::lock_guard lock(all().mutex);
      all().heads.push_back(&InUse::newest);
    }
    ~Registered() {
      const std::lock_guard lock(all().mutex);
      std::erase(all().heads, &InUse::newest);
    }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
  };
  static InUse* register_thread() {
    thread_local const Registered registered;
    static auto* end = new End;
    return end;
  }
  static void unlink(InUse* gone) noexcept {
    for (InUse* u = InUse::newest; u != nullptr; u = u->before_)
      if (u->before_ == gone) u->before_ = gone->before_;
  }

  // Returns the name of a call of this thread that uses `t`; null if there is none.
  static const char* here(const TensorImpl* t, bool but_innermost) noexcept {
    for (const InUse* u = InUse::newest; u != nullptr; u = u->before_)
      if (!std::exchange(but_innermost, false) && u->has(t)) return u->kind_->name(u);
    return nullptr;
  }
  static bool elsewhere(const TensorImpl* t) noexcept {
    const std::lock_guard lock(all().mutex);
    for (InUse* const* head : all().heads) {
      if (head == &InUse::newest) continue;
      for (const InUse* u = *head; u != nullptr; u = u->before_)
        if (u->has(t)) return true;
    }
    return false;
  }
  // Returns a node whose backward, on this thread, is about to read `t`; null if there is none.
  static Node* reader(const TensorImpl* t) noexcept {
    if (t_unpacks != nullptr)
      for (const Tensor& g : running_gradients())
        if (g.impl() == t) return running_node();
    for (const UnpacksSaved* u = t_unpacks; u != nullptr; u = u->before_)
      for (size_t i = 0; i < u->owner_->num_saved(); ++i)
        if (u->owner_->saved_slot(i)->raw().impl() == t) return u->owner_;
    return nullptr;
  }
  static void before_fork() { all().mutex.lock(); }
  static void after_fork() { all().mutex.unlock(); }
  // A child keeps only the calls of the thread that forked.
  static void after_fork_in_child() {
    std::erase_if(all().heads, [](InUse** head) { return head != &InUse::newest; });
    all().mutex.unlock();
  }

  static constinit thread_local const UnpacksSaved* t_unpacks;
};
constinit thread_local const UnpacksSaved* InUseChain::t_unpacks = nullptr;

InUse* InUse::first_of_thread() noexcept { return InUseChain::register_thread(); }
void InUse::leave_chain() noexcept { InUseChain::unlink(this); }

UnpacksSaved::UnpacksSaved(Node* owner) noexcept
    : owner_(owner), before_(std::exchange(InUseChain::t_unpacks, this)) {}
UnpacksSaved::~UnpacksSaved() { InUseChain::t_unpacks = before_; }

namespace {
[[maybe_unused]] const int registered = pthread_atfork(
    InUseChain::before_fork, InUseChain::after_fork, InUseChain::after_fork_in_child);
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
