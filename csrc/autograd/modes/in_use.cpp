// SPDX-License-Identifier: BSD-3-Clause
// The chains of running calls, one per thread, and the searches in them.
#include "autograd/modes/in_use.h"

#include <utility>

#include "autograd/graph/saved_tensor.h"
#include "autograd/run/engine.h"
#include "tensor/thread_list.h"

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
  // The newest call of one thread.
  struct Head {
    InUse** newest = nullptr;
    void start() noexcept { newest = &InUse::newest; }
    void end() noexcept {}
  };
  // Returns the end of every chain. A thread without memory for its variables is in no list, so
  // other threads do not see what it uses.
  static InUse* end_of_chain() {
    (void)take_thread_locals();
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
    for (const Head& chain : ThreadList<Head>::All()) {
      if (&chain == &ThreadList<Head>::mine()) continue;
      for (const InUse* u = *chain.newest; u != nullptr; u = u->before_)
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
  static constinit thread_local const UnpacksSaved* t_unpacks;
};
constinit thread_local const UnpacksSaved* InUseChain::t_unpacks = nullptr;

InUse* InUse::first_of_thread() noexcept { return InUseChain::end_of_chain(); }
void InUse::leave_chain() noexcept { InUseChain::unlink(this); }

UnpacksSaved::UnpacksSaved(Node* owner) noexcept
    : owner_(owner), before_(std::exchange(InUseChain::t_unpacks, this)) {}
UnpacksSaved::~UnpacksSaved() { InUseChain::t_unpacks = before_; }

namespace {
const ThreadList<InUseChain::Head> heads;
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
