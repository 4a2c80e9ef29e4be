// SPDX-License-Identifier: BSD-3-Clause
// Access to .grad, and the node that accumulates into it.
#include <pthread.h>

#include <mutex>

#include "autograd/run/engine.h"
#include "tensor/sparse.h"

namespace cograd {

namespace {
// Returns the node whose lock guards .grad: the grad_fn of a result that retains its gradient, else
// the accumulator (null if there is none yet).
Node* keeper_of(const TensorImpl* t, const AutogradMeta& m) noexcept {
  if ((t->flags & kRetainsGrad) != 0 && t->grad_fn != nullptr) return t->grad_fn;
  return m.accumulator;
}
}  // namespace

Tensor grad_of(TensorImpl* t) {
  const AutogradMeta* m = t->meta;
  if (m == nullptr) return {};
  Node* keeper = keeper_of(t, *m);
  if (keeper == nullptr) return m->grad;
  const std::lock_guard lock(*keeper);
  return m->grad;
}

Tensor exchange_grad(TensorImpl* t, Tensor g) {
  AutogradMeta& m = meta_of(t);
  Node* keeper = keeper_of(t, m);
  if (keeper == nullptr) {
    m.grad.swap(g);
    return g;
  }
  const std::lock_guard lock(*keeper);
  m.grad.swap(g);
  return g;
}

AccumulateGrad::AccumulateGrad(TensorImpl* variable) noexcept : variable_(variable) {
  refs_.store(0, std::memory_order_relaxed);
  sequence = ~uint64_t{0};  // leaves run first, which frees their gradients' buffers soonest
  Tensor t = Tensor::borrow(variable);
  set_output(0, t);
}

namespace {

Tensor added(Tensor grad, const Tensor& g, bool create_graph) {
  if (create_graph) return autograd_ops.add(grad, g);
  if (transforms_open() && (transformed(grad) || transformed(g))) return autograd_ops.add(grad, g);
  autograd_ops.add_(grad, g);
  grad->bump_version();
  return grad;
}

// Returns the tensor to store as the leaf's first gradient: `g` itself if nothing else refers to it
// and it has the leaf's layout, else a copy.
Tensor first_gradient(const TensorImpl* leaf, Tensor g, bool create_graph) {
  const bool dense = (leaf->flags & kContiguous) != 0 || is_dense(leaf);
  const bool laid_out = dense ? same(g.strides(), leaf->strides()) : g.is_contiguous();
  const bool own = g->refs.load(std::memory_order_acquire) == 1 && g->storage->unique() &&
                   laid_out && g->base == nullptr;
  if (own && (create_graph || !requires_grad(g))) return g;
  if (is_sparse(g) && g->refs.load(std::memory_order_acquire) == 1) return g;
  if (transforms_open() && transformed(g)) return autograd_ops.contiguous_clone(g);
  const Tensor source = create_graph ? g : detach(g);
  return dense && (leaf->flags & kContiguous) == 0 ? autograd_ops.relayout(source, leaf->strides())
                                                   : autograd_ops.contiguous_clone(source);
}

// Counts forks, so that no thread of a child has an id that its parent left in `adding_`.
std::atomic<uint64_t> forks{1};

// Returns an id of this thread in this process; never 0.
uint64_t this_thread() noexcept {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
  static std::atomic<uint32_t> count{0};
  thread_local const uint32_t number = count.fetch_add(1);
  (void)registered;
  return forks.load(std::memory_order_relaxed) << 32 | number;
}

}  // namespace

// Lets one thread at a time add. Others wait without the interpreter lock, which the addition may
// need. A signal handler that adds during an addition of its own thread does not wait.
class AccumulateGrad::Turn {
 public:
  explicit Turn(std::atomic<uint64_t>& adding) : adding_(adding) {
    uint64_t there = 0;
    if (take(there)) return;
    mine_ = there != here_;
    if (mine_) wait(there);
  }
  ~Turn() {
    if (!mine_) return;
    adding_.store(0);
    adding_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  // Takes the turn if it is free or held by a thread that a fork left behind. Else returns false,
  // and sets `there` to the thread that has it.
  bool take(uint64_t& there) noexcept {
    there = 0;
    while (!adding_.compare_exchange_strong(there, here_))
      if (there >> 32 == here_ >> 32) return false;
    return true;
  }
  void wait(uint64_t there) {
    const Unlocked lock;
    do {
      adding_.wait(there);
    } while (!take(there));
  }
  std::atomic<uint64_t>& adding_;
  const uint64_t here_ = this_thread();
  bool mine_ = true;
};

// The slot keeps the former gradient until the sum is complete. If the slot was replaced meanwhile,
// an out-of-place sum is computed again; an in-place sum is in the tensor that was taken out.
void AccumulateGrad::accumulate(Tensor g, bool create_graph) {
  const Turn turn(adding_);
  Tensor& slot = variable_->meta->grad;
  for (bool stored = false; !stored;) {
    lock();
    const Tensor before = slot;
    unlock();
    Tensor sum;
    if (before.defined()) {
      sum = added(before, g, create_graph);
      if (sum.is(before)) return;
    } else {
      sum = first_gradient(variable_, std::move(g), create_graph);
      g = sum;
    }
    lock();
    stored = slot.is(before);
    if (stored) slot.swap(sum);
    unlock();
  }
}

void AccumulateGrad::backward(BackwardArgs& args) {
  if ((variable_->flags & kRequiresGrad) == 0) return;
  COGRAD_CHECK(
      !is_batched(args.grads[0]),
      "vmap: backward() computed one gradient per sample for a leaf that all samples share. Use "
      "cograd.func.grad, or call requires_grad_() on the arguments of the vmapped function.");
  if (args.grads[0].defined()) accumulate(std::move(args.grads[0]), args.create_graph);
  if (extra_or_null() == nullptr) return;
  const PlaceGuard host(kHost);
  for (const HookEntry& h : hooks_of(*this, &NodeExtra::accumulate_hooks)) {
    std::vector<Tensor> self{variable()};
    HookCall call{self};
    h.hook->call(call);
  }
}

}  // namespace cograd
