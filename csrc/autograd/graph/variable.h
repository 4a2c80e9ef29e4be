// SPDX-License-Identifier: BSD-3-Clause
// The autograd state of a tensor: leaf gradients, history, views and the rules of in-place writes.
#pragma once
#include "autograd/graph/node.h"
#include "autograd/graph/transform_hooks.h"

namespace cograd {

class AccumulateGrad;
class Sharer;

// The autograd state of a tensor besides its grad_fn. It is created when it is first needed.
struct AutogradMeta {
  Tensor grad;
  Published<AccumulateGrad> accumulator;      // owned; references on it count as the tensor's
  std::unique_ptr<TransformState> transform;  // null: the tensor never took part in a transform
  std::shared_ptr<Sharer> sharer;             // set if kSharesWrites is
  AutogradMeta();
  ~AutogradMeta();
};

// Operations that autograd itself needs, differentiable unless noted. The ops layer sets them.
struct AutogradOps {
  Tensor (*add)(const Tensor&, const Tensor&);
  void (*add_)(const Tensor& into, const Tensor&);  // no history
  void (*copy_)(const Tensor& into, const Tensor&);
  bool (*any_nonzero)(const Tensor&);
  Tensor (*clone)(const Tensor&);
  Tensor (*contiguous_clone)(const Tensor&);
  Tensor (*cast)(const Tensor&, DType);
  Tensor (*sum_to)(const Tensor&, IntList sizes);
  Tensor (*expand)(const Tensor&, IntList sizes);
  Tensor (*permute)(const Tensor&, IntList dims);
  Tensor (*select)(const Tensor&, int64_t dim, int64_t index);
  Tensor (*stack)(const std::vector<Tensor>&);
  Tensor (*zeros)(IntList sizes, DType);
  Tensor (*ones)(IntList sizes, DType);
  Tensor (*as_strided)(const Tensor&, IntList sizes, IntList strides, int64_t offset);
  // Returns `base`, in its layout, with a region (offset from its first element) set to `slice`.
  Tensor (*scatter_slice)(const Tensor& base, const Tensor& slice, IntList sizes, IntList strides,
                          int64_t offset);
  // Returns the same values laid out with the given strides.
  Tensor (*relayout)(const Tensor&, IntList strides);
  Tensor (*parts_of_complex)(const Tensor&);
  Tensor (*complex_from_parts)(const Tensor&);
};
COGRAD_API extern AutogradOps autograd_ops;
// Returns zeros for output `m` of a node, on its device.
inline Tensor zeros_of(const OutputMeta& m) {
  const PlaceGuard here(m.device);
  return autograd_ops.zeros(m.sizes, m.dtype);
}

// Sizes and strides of a complex tensor seen as real and imaginary parts.
struct PartsGeometry {
  PartsGeometry(IntList of_sizes, IntList of_strides) : sizes(of_sizes), strides(of_strides) {
    for (int64_t& s : strides) s = scaled_stride(s, 2);
    sizes.push_back(2);
    strides.push_back(1);
  }
  Dims sizes, strides;
};

// True if grad_fn is set. Relaxed atomic load: another thread may be renewing this view's grad_fn.
inline bool has_grad_fn(const TensorImpl* t) noexcept {
  return __atomic_load_n(&t->grad_fn, __ATOMIC_RELAXED) != nullptr;
}
COGRAD_API bool requires_grad_slow(const TensorImpl* t) noexcept;
// True if gradients flow to `t`: a leaf that requires grad, a recorded result, or a view of one.
inline bool requires_grad(const TensorImpl* t) noexcept {
  if ((t->flags & (kRequiresGrad | kBatched)) != 0)
    return (t->flags & kBatched) == 0 || requires_grad_slow(t);
  return has_grad_fn(t) || (t->base != nullptr && requires_grad_slow(t));
}
inline bool requires_grad(const Tensor& t) noexcept {
  return t.defined() && requires_grad(t.impl());
}

// Returns the grad_fn of a view, a batched tensor or one that shares writes; see grad_fn().
COGRAD_API Node* renewed_grad_fn(TensorImpl* t);
// Returns grad_fn, renewed if `t` was written through its base or a tensor that shares writes with
// it; borrowed, null for leaves.
inline Node* grad_fn(TensorImpl* t) {
  if (t->base == nullptr && (t->flags & (kBatched | kSharesWrites)) == 0) [[likely]]
    return t->grad_fn;
  return renewed_grad_fn(t);
}
inline bool is_leaf(const Tensor& t) { return grad_fn(t.impl()) == nullptr; }
// Returns the edge that a gradient of `t` flows to: (grad_fn, output_nr) or the leaf's accumulator.
// The caller owns the reference.
COGRAD_API Edge gradient_edge(TensorImpl* t);
COGRAD_API AutogradMeta& meta_of(TensorImpl* t);
// True if the elements fill their memory without gaps or overlap, in any order of dims.
COGRAD_API bool is_dense(const TensorImpl* t);
COGRAD_API AccumulateGrad* accumulator_of(TensorImpl* t);
// Returns `.grad`, safely while runs on other threads add to it.
COGRAD_API Tensor grad_of(TensorImpl* t);
// Sets `.grad` to `g`, which may be undefined; returns the former gradient.
COGRAD_API Tensor exchange_grad(TensorImpl* t, Tensor g);

// Makes `t` the output `nr` of `node`; takes a new reference on the node.
inline void set_history(const Tensor& t, Node* node, uint32_t nr) {
  node->set_output(nr, t);
  TensorImpl* p = t.impl();
  node->retain();
  p->grad_fn = node;
  p->output_nr = nr;
  if (p->base != nullptr) {
    p->view_version = p->current_version();
    p->flags &= ~uint32_t{kViewNoGrad | kViewInference};
  }
}

// Makes `out` a differentiable view of `in`, with the same base.
inline void link_view(const Tensor& in, const Tensor& out) {
  if ((in->flags & kInference) != 0) [[unlikely]] {  // `in` has no autograd state to share
    out->flags |= kViewInference;
    return;
  }
  TensorImpl* base = in->base != nullptr ? in->base : in.impl();
  base->retain();
  out->base = base;
  out->view_version = out->current_version();
  out->flags |= in->flags & kViewKinds;
  if ((in->flags & kViewNoGrad) != 0) out->flags |= kViewOfNoGrad;
  if (!thread_state.grad_enabled) out->flags |= kViewNoGrad;
  if (thread_state.inference) out->flags |= kViewInference;
}

// Raises torch's errors if `t` may not be written in place now. `tracked` is true if the write will
// be recorded.
COGRAD_API void check_inplace(const Tensor& t, const char* op, bool tracked);
// Called after an in-place write to `t` that `node` recorded as its output `nr`: sets the new
// grad_fn of `t` and, through CopySlices, of its base. Takes a new reference on `node`. `edge` is
// the index of the edge of `node` that leads to the former value of `t`.
COGRAD_API void rebase_history(const Tensor& t, Node* node, uint32_t nr = 0, size_t edge = 0);
// Sets grad_fn to `owned`, output `nr`; a tensor that retains its gradient retains it at the new
// node. Returns the former grad_fn.
NodeRef replace_history(TensorImpl* t, Node* owned, uint32_t nr);

COGRAD_API void set_requires_grad(const Tensor& t, bool value);
COGRAD_API void retain_grad(const Tensor& t);
// Return a tensor over the same memory without history. detach() shares the version counter,
// variable_data() gets a new one.
COGRAD_API Tensor detach(const Tensor& t);
COGRAD_API Tensor variable_data(const Tensor& t);
COGRAD_API void detach_(const Tensor& t);
// Executes `t.data = source`: replaces the memory and the geometry of `t`, and keeps its history,
// its views and its count of writes.
COGRAD_API void set_data(const Tensor& t, const Tensor& source);

// Registers a hook on the tensor's gradient; returns the node that holds it, and sets its id.
COGRAD_API NodeRef add_tensor_hook(const Tensor& t, std::shared_ptr<Hook> hook, uint64_t* id);

// The node of a leaf, where every path ends: adds the gradient to .grad. The leaf's AutogradMeta
// owns it. References on it count as references on the leaf, so the two form no cycle.
class COGRAD_API AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(TensorImpl* variable) noexcept;
  std::string name() const override { return "AccumulateGrad"; }
  void backward(BackwardArgs& args) override;
  void first_reference() noexcept override { variable_->retain(); }
  void last_reference() noexcept override { variable_->release(); }
  bool is_accumulator() const noexcept override { return true; }
  Tensor variable() const noexcept { return Tensor::borrow(variable_); }
  TensorImpl* variable_impl() const noexcept { return variable_; }

 private:
  class Turn;
  void accumulate(Tensor g, bool create_graph);
  TensorImpl* variable_;
  std::atomic<uint64_t> adding_{0};  // id of the thread that is adding; 0: none
};

}  // namespace cograd
