// SPDX-License-Identifier: BSD-3-Clause
// Outputs of custom functions join the graph: views, inputs returned as they are, in-place results.
#include "autograd/custom_function.h"

#include <algorithm>

namespace cograd {

namespace {

bool contains(std::span<TensorImpl* const> list, const Tensor& t) noexcept {
  return std::find(list.begin(), list.end(), t.impl()) != list.end();
}

// A view of the whole of `t`, so that an input returned as it is becomes a new tensor.
Tensor whole_view(const Tensor& t) { return alias_strided(t, t.sizes(), t.strides(), t.bytes()); }

}  // namespace

bool CustomCall::is_input(const Tensor& t) const noexcept { return contains(inputs, t); }
bool CustomCall::is_dirty(const Tensor& t) const noexcept { return contains(dirty, t); }

void check_dirty_returned(const CustomCall& call, std::span<TensorImpl* const> outputs) {
  for (TensorImpl* p : call.dirty) {
    const Tensor t = Tensor::borrow(p);
    COGRAD_CHECK(contains(outputs, t) || !call.recording,
                 "Some elements marked as dirty during the forward method were not returned as "
                 "output. The inputs that are modified inplace must all be outputs of the "
                 "Function. (",
                 call.name, ")");
    if (!call.recording) continue;
    if (t->base == nullptr) {
      COGRAD_CHECK(!requires_grad(t) || !is_leaf(t),
                   "a leaf Variable that requires grad has been used in an in-place operation. (",
                   call.name, ".forward marked it dirty)");
      continue;
    }
    check_inplace(t, std::string(call.name).c_str(), true);
    const auto tensors = std::count_if(outputs.begin(), outputs.end(),
                                       [](const TensorImpl* o) { return o != nullptr; });
    COGRAD_CHECK(
        tensors == 1,
        "If your Function modifies inplace an input that is a view of another Tensor, your "
        "Function cannot return more than one Tensor. This is not supported by the "
        "current autograd engine. You should either make sure the input is not a view "
        "(using .clone() for example) or make your Function only return one Tensor. (",
        call.name, ")");
  }
}

void check_unmarked_writes(const CustomCall& call, std::span<const uint32_t> versions) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    TensorImpl* p = call.inputs[i];
    if (p == nullptr || !requires_grad(p) || p->current_version() == versions[i]) continue;
    const Tensor t = Tensor::borrow(p);
    // A dirty input may share memory, and so the version, with this one.
    const bool shared = std::any_of(call.dirty.begin(), call.dirty.end(),
                                    [&](TensorImpl* d) { return d->storage == p->storage; });
    COGRAD_CHECK(shared || call.is_dirty(t), call.name, ": forward wrote ",
                 call.describe(call.context, i),
                 " in place without declaring it: call ctx.mark_dirty on it and return it, or "
                 "write into a clone()");
  }
}

Tensor join_output(const CustomCall& call, Tensor t, uint32_t nr, size_t views) {
  const bool input = call.is_input(t);
  call.node->set_output(nr, t);
  if (call.is_dirty(t)) {
    if (call.recording) rebase_history(t, call.node, nr);
    return t;
  }
  if (contains(call.non_differentiable, t) || !is_differentiable(t.dtype())) {
    if (input) return whole_view(t);
    return requires_grad(t) ? detach(t) : t;
  }
  if (!call.recording) {
    if (t->base != nullptr && !input)
      t->flags = (t->flags & ~uint32_t{kViewKinds}) | kViewCustomFunction;
    return input ? whole_view(t) : t;
  }
  if (input) {
    Tensor v = whole_view(t);
    if (t->base != nullptr || requires_grad(t)) {
      link_view(t, v);
      v->flags = (v->flags & ~uint32_t{kViewKinds}) | kViewCustomFunction;
    }
    set_history(v, call.node, nr);
    return v;
  }
  if (requires_grad(t) && t->base == nullptr) t = detach(t);  // a tensor from outside, or twice
  const bool view = t->base != nullptr;
  set_history(t, call.node, nr);
  t->flags &= ~uint32_t{kTaint};
  if (view) {
    const bool several = views > 1 || call.node->num_outputs() > 1;
    t->flags =
        (t->flags & ~uint32_t{kViewKinds}) | (several ? kViewMultiOutput : kViewCustomFunction);
  }
  return t;
}

void SavedSlot::keep(const CustomCall& call, const Tensor& t, std::span<TensorImpl* const> before,
                     std::span<TensorImpl* const> after) {
  if (!t.defined()) return;
  const bool input = call.is_input(t);
  const auto at = std::find(before.begin(), before.end(), t.impl());
  if (at != before.end() && (!input || call.is_dirty(t))) {
    const auto nr = static_cast<size_t>(at - before.begin());
    kind = Kind::Output;
    tensor.save_output(Tensor::borrow(after[nr]), static_cast<uint32_t>(nr));
    return;
  }
  kind = input                                               ? Kind::Input
         : (t->flags & kTaint) != 0 && t->grad_fn == nullptr ? Kind::Intermediate
                                                             : Kind::Constant;
  tensor.save(t);
}

Tensor SavedSlot::unpack(Node* owner, size_t index) {
  Tensor t = unpack_saved(owner, tensor);
  if (kind != Kind::Intermediate || !thread_state.grad_enabled) return t;
  return poisoned_intermediate(owner, t, detail::concat("saved tensor ", index));
}

Tensor poisoned_intermediate(Node* owner, const Tensor& t, const std::string& what) {
  return poisoned(
      t, owner->edges(),
      detail::concat(owner->name(), ": ", what,
                     " is an intermediate result of forward: it depends on the inputs, but its own "
                     "derivative is not recorded, so a second derivative through it would be "
                     "silently wrong. Recompute it from saved inputs in backward, or return it as "
                     "an extra output and save that, or mark backward with once_differentiable."));
}

}  // namespace cograd
