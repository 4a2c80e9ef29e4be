// SPDX-License-Identifier: BSD-3-Clause
// The gate: runs a call of an op in any form, and records it. op.h includes this file.
#pragma once
#include "ops/declare/op.h"

namespace cograd {

namespace detail {

// The type that a call returns; a call with a target returns nothing.
template <class Op, Form kForm>
using Returned = std::conditional_t<kForm == Form::Plain, typename Traits<Op>::Out, void>;

// Makes the node of a call and runs `body(ctx, guard)`, which computes and records the results.
template <class Op, class Body, class... Args>
auto record(const TensorSet* wanted, Body&& body, const Args&... args) {
  auto* node = new OpNode<Op>;
  NodeGuard guard(node);
  if (wanted == nullptr) [[likely]]
    each_edge([&](const Tensor* t) { connect(node, t); }, args...);
  else
    each_edge([&](const Tensor* t) { connect_extra(node, t, *wanted); }, args...);
  Ctx<Op> ctx(node);
  // If a transform's rule records this node, the rule packs what the node saves.
  if (thread_state.saved_hooks != nullptr && wanted == nullptr) [[unlikely]]
    ctx.set_arguments(collect_arguments(guard, args...));
  return body(ctx, guard);
}

// Inline, because a small op takes as long as a few calls.
template <class Op, class... Args>
[[gnu::always_inline]] inline typename Traits<Op>::Out run_leaf(const CallForm& call,
                                                                const Args&... args) {
  const ThreadState& ts = thread_state;
  if constexpr (has_backward<Op>()) {
    bool recording = ts.grad_enabled && (any_requires_grad(args...) || call.wanted != nullptr);
    if constexpr (is_view<Op>())  // a view of an inference tensor is an inference tensor
      recording = recording && !any_inference(args...);
    if (recording) {
      const auto body = [&](Ctx<Op>& ctx, const NodeGuard& guard) {
        GradGuard no_grad(is_view<Op>());
        auto out = Op::forward(ctx, args...);
        guard.node->set_num_outputs(count_outputs(out));
        each_output(out, [&](const Tensor& t, uint32_t i) {
          if (t.defined() && is_differentiable(t.dtype()) && !nondiff_output<Op>(i))
            set_history(t, guard.node, i);
        });
        if (guard.arguments != nullptr) [[unlikely]]
          pack_saved(*guard.node);
        return out;
      };
      return record<Op>(call.wanted, body, args...);
    }
  }
  Ctx<Op> ctx;
  auto out = Op::forward(ctx, args...);
  if (ts.taint || ts.inference) [[unlikely]] {
    uint32_t flags = ts.inference ? uint32_t{kInference} : 0;
    if (has_backward<Op>() && ts.taint && any_tainted(args...)) flags |= kTaint;
    if constexpr (!std::is_void_v<decltype(out)>) mark_outputs(out, flags, args...);
  }
  return out;
}

// Runs the forward of a call with a target; the result is in the target afterwards.
template <class Op, class... Args>
void run_into(Ctx<Op>& ctx, const CallForm& call, const Args&... args) {
  const Tensor& target = *call.target;
  const bool inplace = call.form == Form::InPlace;
  ctx.set_target(&target, inplace, Op::spec.name, call.values);
  const Tensor result = Op::forward(ctx, args...);
  target->bump_version();
  if (result.is(target)) return;
  const GradGuard no_grad(false);
  finish_target(Op::spec, target, result, inplace);
}

template <class Op, class... Args>
void run_leaf_inplace(const CallForm& call, bool tracked, const Args&... args) {
  const Tensor& self = *call.target;
  if constexpr (has_backward<Op>()) {
    if (tracked) {
      const auto body = [&](Ctx<Op>& ctx, const NodeGuard& guard) {
        {
          const GradGuard no_grad(false);
          run_into(ctx, call, args...);
        }
        auto* node = static_cast<OpNode<Op>*>(guard.node);
        for (SavedTensor& s : node->saved) s.follow_inplace(self);
        rebase_history(self, node);
        if (guard.arguments != nullptr) [[unlikely]]
          pack_saved(*node);
      };
      return record<Op>(nullptr, body, args...);
    }
  }
  NodeRef overwriting;
  if (!has_backward<Op>() && tracked && requires_grad(self)) [[unlikely]]
    overwriting = overwriting_node(Op::spec.name, self);
  Ctx<Op> ctx;
  run_into(ctx, call, args...);
  if (overwriting) [[unlikely]]
    rebase_history(self, overwriting.get());
  if (has_backward<Op>() && thread_state.taint && any_tainted(args...)) self->flags |= kTaint;
}

// Runs a composition whose result is then copied into `self`.
template <class Op, class... Args>
void run_composite_inplace(const Tensor& self, const Args&... args) {
  const auto forward = [](const auto& first, const auto&... rest) {
    if constexpr (requires { Op::kCopiesTarget; })
      return Op::forward(thread_state.grad_enabled ? clone(first) : first, rest...);
    else
      return Op::forward(first, rest...);
  };
  if (transforms_open() && any_transformed(self, args...)) [[unlikely]]
    return copy_result(Op::spec, self, forward(args...));
  finish_target(Op::spec, self, forward(args...), true);
  if (!thread_state.grad_enabled) self->bump_version();
}

template <class Op, class... Args>
void run_inplace(const CallForm& call, const Args&... args) {
  const Tensor& self = *call.target;
  const bool tracked = thread_state.grad_enabled && any_requires_grad(args...);
  if (!Traits<Op>::composite || (self->flags & kBatched) == 0)
    check_inplace(self, Op::spec.name, tracked);
  if constexpr (Traits<Op>::composite)
    run_composite_inplace<Op>(self, args...);
  else
    run_leaf_inplace<Op>(call, tracked, args...);
}

template <class Op, class... Args>
void run_out(const CallForm& call, bool unsigned_order, const Args&... args) {
  const Tensor& out = *call.target;
  check_outs(Op::spec, {&out, 1}, call.values, any_requires_grad(args...));
  const GradGuard no_grad(false);
  if constexpr (ordered<Op>()) {
    if (unsigned_order) [[unlikely]] {
      Result r = Boxed<Op>::in_order(record_of<Op>, args...);
      finish_target(Op::spec, out, Unboxed<Tensor>::get(r), false);
      out->bump_version();
      return;
    }
  }
  if constexpr (Traits<Op>::composite) {
    finish_target(Op::spec, out, Op::forward(args...), false);
    out->bump_version();
  } else {
    Ctx<Op> ctx;
    run_into(ctx, call, args...);
  }
}

}  // namespace detail

// The gate: every call of a built-in op, typed or boxed, in any form, enters here. What happens to
// a call, in this order: the dtypes are checked, an op that only chooses another one calls that,
// the stages run if one is open, and the op itself runs and is recorded.
template <class Op, Form kForm, class... Args>
detail::Returned<Op, kForm> enter(const CallForm& call, const Args&... args) {
  using Traits = detail::Traits<Op>;
  static_assert(kForm != Form::InPlace || !detail::ordered<Op>(),
                "ops with an UnsignedRule have no in-place form");
  [[maybe_unused]] const bool unsigned_order = detail::check_claims<Op>(args...);
  if constexpr (detail::ordered<Op>() && kForm == Form::Plain) {
    if (unsigned_order) [[unlikely]] {
      Result r = detail::Boxed<Op>::in_order(detail::record_of<Op>, args...);
      return Unboxed<typename Traits::Out>::get(r);
    }
  }
  if constexpr (Traits::choice) {
    return static_cast<detail::Returned<Op, kForm>>(Op::forward(call, args...));
  } else {
    if (stages_open()) [[unlikely]] {
      Result r;
      if (detail::Boxed<Op>::staged(detail::gate_traits<Op>(), detail::record_of<Op>, call, r,
                                    args...)) {
        if constexpr (std::is_void_v<detail::Returned<Op, kForm>>)
          return;
        else
          return Unboxed<typename Traits::Out>::get(r);
      }
    }
    if constexpr (kForm == Form::InPlace)
      return detail::run_inplace<Op>(call, args...);
    else if constexpr (kForm == Form::Out)
      return detail::run_out<Op>(call, unsigned_order, args...);
    else if constexpr (!Traits::composite)
      return detail::run_leaf<Op>(call, args...);
    else if (!thread_state.inference) [[likely]]
      return Op::forward(args...);
    else
      return detail::marked_inference([&] { return Op::forward(args...); }, args...);
  }
}

// Runs an op on typed arguments and records it if a gradient may be needed.
template <class Op, class... Args>
typename detail::Traits<Op>::Out apply(const Args&... args) {
  return enter<Op, Form::Plain>(kPlainCall, args...);
}
// Runs the in-place form: `self` is the first argument and receives the result.
template <class Op, class... Args>
void apply_inplace(const Tensor& self, std::span<const Value> values, const Args&... args) {
  enter<Op, Form::InPlace>(CallForm::inplace(self, values), args...);
}

template <class Op, class... Args>
Tensor CallForm::run(const Args&... args) const {
  if (form == Form::Plain) return enter<Op, Form::Plain>(*this, args...);
  if (form == Form::InPlace)
    enter<Op, Form::InPlace>(*this, args...);
  else
    enter<Op, Form::Out>(*this, args...);
  return *target;
}

}  // namespace cograd
