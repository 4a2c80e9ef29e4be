// SPDX-License-Identifier: BSD-3-Clause
// Checks of roots, gradients and inputs before a backward.
#include "autograd/run/backward_job.h"

namespace cograd {

Tensor BackwardJob::root_gradient(IntList sizes, DType dtype, const Tensor& grad,
                                  size_t index) const {
  if (!grad.defined()) {
    COGRAD_CHECK(product(sizes) == 1, who_,
                 "grad can be implicitly created only for scalar outputs");
    COGRAD_CHECK(is_real(dtype), who_,
                 "grad can be implicitly created only for real scalar outputs but got cograd.",
                 dtype_name(dtype));
    return autograd_ops.ones(sizes, dtype);
  }
  COGRAD_CHECK(grad->device == thread_place.now, who_, "invalid gradient at index ", index,
               " - expected device ", to_string(thread_place.now), " but got ",
               to_string(grad->device));
  COGRAD_CHECK(same(grad.sizes(), sizes), who_, "Mismatch in shape: grad_output[", index,
               "] has a shape of cograd.Size(", to_string(grad.sizes()), ") and output[", index,
               "] has a shape of cograd.Size(", to_string(sizes), ").");
  if (grad.dtype() == dtype) return grad;
  COGRAD_CHECK(is_real(dtype) && is_real(grad.dtype()), who_,
               "For complex Tensors, both grad_output and output are required to have the same "
               "dtype. Mismatch in dtype: grad_output[",
               index, "] has a dtype of cograd.", dtype_name(grad.dtype()), " and output[", index,
               "] has a dtype of cograd.", dtype_name(dtype), ".");
  return autograd_ops.cast(grad, dtype);
}

void BackwardJob::add_root(const Tensor& t, const Tensor& grad, size_t index) {
  COGRAD_CHECK(requires_grad(t) && roots_.add(t), who_, "element ", index,
               " of tensors does not require grad and does not have a grad_fn");
  const PlaceGuard here(t->device);  // for the gradient of ones
  Tensor g = root_gradient(t.sizes(), t.dtype(), grad, index);
  if (is_batched(t)) [[unlikely]] {  // the graph is that of the physical tensor
    g = transform_hooks.physical_like(t, g);
    batched_roots_ = true;
  }
  request.grads.push_back(std::move(g));
}

void BackwardJob::add_root(const NodeRef& node, uint32_t nr, const Tensor& grad, size_t index) {
  const OutputMeta& m = node->output(nr);
  const PlaceGuard here(m.device);
  request.grads.push_back(root_gradient(m.sizes, m.dtype, grad, index));
  roots_.add(node, nr);
}

void BackwardJob::add_input(const Tensor& t, bool accumulate) {
  COGRAD_CHECK(requires_grad(t), who_, "One of the differentiated Tensors does not require grad");
  if (accumulate) retain_grad(t);
  lone_inputs_ |= !is_batched(t);
  handles_.push_back(is_batched(t) ? t : Tensor());
  if (inputs_.add(t)) return;
  // `t` is a view made without recording. Its accumulator is an input to which no edge leads, so
  // the gradient stays undefined.
  inputs_.add(NodeRef::borrow(accumulator_of(t.impl())), 0);
}

void BackwardJob::add_input(const NodeRef& node, uint32_t nr) {
  handles_.emplace_back();
  inputs_.add(node, nr);
}

std::vector<Tensor> BackwardJob::run() {
  request.roots = roots_.list();
  request.inputs = inputs_.list();
  COGRAD_CHECK(!lone_inputs_ || !batched_roots_ || request.accumulate, who_,
               "inside of a vmap, the gradient of a batched result with respect to a tensor that "
               "all samples share is not supported: use cograd.func.grad, or expand() the tensor "
               "over the samples");
  std::vector<Tensor> found = run_backward(std::move(request));
  for (size_t i = 0; i < found.size(); ++i)
    if (handles_[i].defined() && found[i].defined())
      found[i] = transform_hooks.batched_like(handles_[i], found[i]);
  return found;
}

void set_gradient(const Tensor& t, const Tensor& g) {
  if (is_batched(t))
    return set_gradient(transform_hooks.wrapped_tensor(t),
                        g.defined() ? transform_hooks.physical_like(t, g) : g);
  COGRAD_CHECK(!g.defined() || g->device == t->device,
               "assigned grad has data located on a different device: ", to_string(g->device),
               " for a tensor on ", to_string(t->device));
  if (!g.defined()) {
    if (t->meta != nullptr) exchange_grad(t.impl(), Tensor());
    return;
  }
  COGRAD_CHECK(!g.is(t), "can't assign Variable as its own grad");
  COGRAD_CHECK(g.dtype() == t.dtype(), "attempting to assign a gradient with dtype '",
               dtype_name(g.dtype()), "' to a tensor with dtype '", dtype_name(t.dtype()),
               "'. Please ensure that the gradient and the tensor have the same dtype");
  COGRAD_CHECK(same(g.sizes(), t.sizes()), "attempting to assign a gradient of size '",
               to_string(g.sizes()), "' to a tensor of size '", to_string(t.sizes()),
               "'. Please ensure that the gradient and the tensor are the same size");
  exchange_grad(t.impl(), g);
}

}  // namespace cograd
