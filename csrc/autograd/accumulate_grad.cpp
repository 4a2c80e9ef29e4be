// SPDX-License-Identifier: BSD-3-Clause
// The slot of .grad, and the node that adds to it.
#include <mutex>

#include "autograd/batch.h"
#include "autograd/engine.h"

namespace cograd {

namespace {
// Whose lock guards .grad: the node's of a result that retains it, else the leaf's accumulator's.
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
  sequence = ~uint64_t{0};  // leaves first: frees their gradients' buffers soonest
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

// The first gradient is taken over if nobody else sees it and it has the leaf's layout.
Tensor first_gradient(const TensorImpl* leaf, Tensor g, bool create_graph) {
  const bool dense = (leaf->flags & kContiguous) != 0 || is_dense(leaf);
  const bool laid_out = dense ? same(g.strides(), leaf->strides()) : g.is_contiguous();
  const bool own = g->refs.load(std::memory_order_acquire) == 1 && g->storage->unique() &&
                   laid_out && g->base == nullptr;
  if (own && (create_graph || !requires_grad(g))) return g;
  if (transforms_open() && transformed(g)) return autograd_ops.contiguous_clone(g);
  const Tensor source = create_graph ? g : detach(g);
  return dense && (leaf->flags & kContiguous) == 0 ? autograd_ops.relayout(source, leaf->strides())
                                                   : autograd_ops.contiguous_clone(source);
}

}  // namespace

// One thread at a time adds, others wait without the interpreter's lock, which the sum may need.
// What a signal handler adds within the sum of its own thread does not wait.
class AccumulateGrad::Turn {
 public:
  explicit Turn(std::atomic<const void*>& adding) : adding_(adding) {
    const void* there = nullptr;
    if (adding_.compare_exchange_strong(there, &here)) return;
    mine_ = there != &here;
    if (mine_) wait(there);
  }
  ~Turn() {
    if (!mine_) return;
    adding_.store(nullptr);
    adding_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  void wait(const void* there) {
    const Unlocked lock;
    do {
      if (there != nullptr) adding_.wait(there);
      there = nullptr;
    } while (!adding_.compare_exchange_strong(there, &here));
  }
  static thread_local char here;
  std::atomic<const void*>& adding_;
  bool mine_ = true;
};
thread_local char AccumulateGrad::Turn::here = 0;

// The slot keeps the former gradient until the sum is there. Whoever takes an in-place sum's
// tensor out meanwhile has the sum; any other sum is made anew.
void AccumulateGrad::accumulate(Tensor g, bool create_graph) {
  const Turn turn(adding_);
  Tensor& slot = variable_->meta->grad;
  for (bool stored = false; !stored;) {
    lock();
    const Tensor before = slot;
    unlock();
    Tensor sum = before.defined() ? added(before, g, create_graph)
                                  : first_gradient(variable_, std::move(g), create_graph);
    if (before.defined() && sum.is(before)) return;
    if (!before.defined()) g = sum;
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
      "vmap: backward() has a gradient for each sample for a tensor that is the same for all "
      "of them. Use cograd.func.grad, or requires_grad_() on what the function got.");
  if (args.grads[0].defined()) accumulate(std::move(args.grads[0]), args.create_graph);
  if (extra_or_null() == nullptr) return;
  for (const HookEntry& h : hooks_of(*this, &NodeExtra::accumulate_hooks)) {
    std::vector<Tensor> self{variable()};
    HookCall call{self};
    h.hook->call(call);
  }
}

}  // namespace cograd
