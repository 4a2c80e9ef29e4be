// SPDX-License-Identifier: BSD-3-Clause
// The non-template parts of the op mechanism: in-place and out= targets, node names.
#include "ops/declare/op.h"

#include <algorithm>
#include <cctype>

#include "autograd/modes/inference.h"
#include "ops/compute/elementwise.h"
#include "ops/compute/overlap.h"
#include "ops/compute/resize.h"
#include "ops/declare/ops.h"
#include "tensor/sparse.h"
#include "transforms/batch.h"

namespace cograd {

bool reads_transformed(Node& node, BackwardArgs& args) {
  for (const Tensor& g : args.grads)
    if (transformed(g)) return true;
  for (size_t i = 0; i < node.num_saved(); ++i) {
    SavedTensor& s = *node.saved_slot(i);
    if (s.packed() ? transformed(unpack_once(&node, s, i, args)) : transformed(s.raw()))
      return true;
  }
  return false;
}

std::string camel_backward(const char* op_name) {
  std::string s;
  bool upper = true;
  for (const char* p = op_name; *p != '\0'; ++p) {
    if (*p == '_') {
      upper = true;
      continue;
    }
    s.push_back(upper ? static_cast<char>(std::toupper(*p)) : *p);
    upper = false;
  }
  return s + "Backward0";
}

namespace {

void check_shape_inplace(const Tensor& self, IntList sizes) {
  if (!same(self.sizes(), sizes))
    detail::fail(ErrorKind::Runtime, "output with shape ", to_string(self.sizes()),
                 " doesn't match the broadcast shape ", to_string(sizes));
}

void check_castable(DType from, DType to) {
  COGRAD_CHECK(can_cast(from, to), "result type ", scalar_type_name(from),
               " can't be cast to the desired output type ", scalar_type_name(to));
}

class OverwritingNode final : public Node {
 public:
  explicit OverwritingNode(const char* op) noexcept : op_(op) {}
  std::string name() const override { return camel_backward(op_); }
  void backward(BackwardArgs& args) override {
    const Tensor& g = args.grads[0];
    if (g.defined() && args.needs(0)) args.out[0] = autograd_ops.zeros(g.sizes(), g.dtype());
  }

 private:
  const char* op_;
};

}  // namespace

Tensor CtxBase::out_target(IntList sizes, DType dtype) {
  const Tensor& t = *target_;
  check_castable(dtype, t.dtype());
  if (inplace_) check_shape_inplace(t, sizes);
  if (inplace_) check_distinct(op_, t);
  if (t.dtype() != dtype) return empty(sizes, dtype);
  if (!inplace_) return same(t.sizes(), sizes) ? t : empty(sizes, dtype);
  for (const Value& v : values_)
    if (v.has_tensor() && overlaps_partially(t, v.tensor())) fail_overlap(op_);
  return t;
}

Tensor CtxBase::kept(const Tensor& t) {
  const Tensor& target = *target_;
  const auto root = [](const Tensor& v) { return v->base != nullptr ? v->base : v.impl(); };
  // A pack hook may hold `t` past the write without a version check, so save a copy.
  const bool hooked = thread_state.saved_hooks != nullptr && t->storage == target->storage;
  if (!t.is(target) && !hooked) return root(t) == root(target) ? with_history(t) : t;
  GradGuard grad(requires_grad(t));
  return clone(t);
}

void CtxBase::save_specially(SavedTensor& slot, const Tensor& t) {
  slot.save(inplace_ && t.defined() ? kept(t) : t);
  if (arguments_ == nullptr || !t.defined()) return;
  if (arguments_->contains(t.impl()) || (t->base != nullptr && arguments_->contains(t->base)))
    slot.pack();
}

namespace detail {

void NodeGuard::make_arguments() { arguments = new TensorSet(nullptr); }
void NodeGuard::drop_arguments() noexcept { delete arguments; }
void NodeGuard::add_argument(const Tensor* t) {
  arguments->add(t != nullptr ? t->impl() : nullptr);
}

void fail_numbers_only(const char* op, const Value& first) {
  const Scalar s = first.scalar();
  const char* kind = s.is_complex() ? "complex"
                     : s.is_float() ? "float"
                     : s.is_bool()  ? "bool"
                                    : "int";
  fail(ErrorKind::Type, op, "(): argument 'input' (position 1) must be Tensor, not ", kind);
}

void fail_form(const char* op) {
  fail(ErrorKind::Runtime, op,
       "(): internal error: the op is called in a form that its flags do not declare");
}

void connect_extra(Node* n, const Tensor* t, const TensorSet& wanted) {
  Edge e{};
  if (t != nullptr && t->defined()) {
    e = gradient_edge(t->impl());
    if (e.node == nullptr && wanted.contains(t->impl())) e = wanted_edge();
  }
  n->add_edge(e.node, e.input_nr);
}
void fail_dtype(const char* op, DType t) {
  fail(ErrorKind::NotImplemented, op, "(): not implemented for dtype ", dtype_name(t));
}

Conjugated::Conjugated(BackwardArgs& args) : inner_(args) {
  for (const Tensor& g : args.grads) grads_.push_back(g.defined() ? conj(g) : g);
  inner_.grads = {grads_.data(), grads_.size()};
}
void Conjugated::finish() const {
  for (Tensor& t : inner_.out)
    if (t.defined()) t = conj(t);
}

void mark_output(const Tensor& t, uint32_t flags) {
  if (!makes_inference_tensors()) flags &= ~uint32_t{kInference};
  // A returned view keeps its own flags.
  if (!t.defined() || (flags == kInference && t->base != nullptr)) return;
  t->flags |= is_differentiable(t.dtype()) ? flags : flags & ~uint32_t{kTaint};
}

NodeRef overwriting_node(const char* op, const Tensor& self) {
  NodeRef node(new OverwritingNode(op));
  connect(node.get(), &self);
  return node;
}

void check_result(const OpSpec& op, const Tensor& target, DType result, bool exact) {
  COGRAD_CHECK(!exact || result == target.dtype(), op.name,
               "(): Expected out tensor to have dtype ", dtype_name(result), ", but got ",
               dtype_name(target.dtype()), " instead");
  check_castable(result, target.dtype());
}

void finish_target(const OpSpec& op, const Tensor& target, const Tensor& result, bool inplace,
                   bool past_stages) {
  check_result(op, target, result.dtype(), !inplace && (op.flags & kExactOut) != 0);
  if (inplace) {
    check_shape_inplace(target, result.sizes());
    check_distinct(op.name, target);
  } else {
    resize_out(op.name, target, result);
  }
  if (!thread_state.grad_enabled)
    raw_copy(target, result);
  else if (past_stages)
    copy_past_stages_(target, result);
  else
    copy_(target, result);
}

void copy_result(const OpSpec& op, const Tensor& target, const Tensor& result) {
  check_result(op, target, result.dtype(), false);
  check_shape_inplace(target, result.sizes());
  copy_(target, result);
}

namespace {

// Raises if a gradient would be lost, or if `out` must not be written at all.
void check_out(const char* op, const Tensor& out, bool any_grad) {
  COGRAD_CHECK(!thread_state.grad_enabled || (!any_grad && !requires_grad(out)), op,
               "(): functions with out=... arguments don't support automatic differentiation, but "
               "one of the arguments requires grad.");
  COGRAD_CHECK((out->flags & kInference) == 0 || thread_state.inference, op,
               "(): out= is an inference tensor. Inplace update to inference tensor outside "
               "InferenceMode is not allowed. You can make a clone to get a normal tensor before "
               "doing inplace update.");
  COGRAD_CHECK(!out->storage->read_only, op,
               "(): out= shares memory with a read-only buffer and cannot be written");
  record_write(out, op);
}

void check_out_memory(const OpSpec& spec, const Tensor& out, std::span<const Value> args) {
  const auto check = [&](const Tensor& in, bool may_be_out) {
    if (!in.defined() || in->storage != out->storage || out.numel() == 0) return;
    if (overlaps_partially(out, in) || (!may_be_out && same_elements(out, in)))
      fail_overlap(spec.name);
  };
  if (out.numel() > 1) check_distinct(spec.name, out);
  for (size_t i = 0; i < args.size(); ++i) {
    const Value& v = args[i];
    const bool may_be_out =
        (spec.flags & kOutApart) == 0 && (i == 0 || (spec.flags & kOutIsInput) == 0);
    if (v.has_tensor())
      check(v.tensor(), may_be_out);
    else if (v.kind == COGRAD_TENSORS)
      for (const Tensor& t : v.tensors()) check(t, may_be_out);
  }
}

// Raises if two outputs share elements, or one memory so that resizing would make them overlap.
void check_apart(const OpSpec& spec, const Tensor& a, const Tensor& b) {
  if (a.is(b) || overlaps_partially(a, b) ||
      (a->storage == b->storage && (same_elements(a, b) || a.numel() == 0 || b.numel() == 0)))
    fail_overlap(spec.name);
}

}  // namespace

void check_outs(const OpSpec& spec, TensorList outs, std::span<const Value> args, bool any_grad) {
  for (size_t i = 0; i < outs.size(); ++i) {
    check_one_value(outs[i], "an operation with out=");
    check_not_sparse(outs[i], "an operation with out=");
    check_out(spec.name, outs[i], any_grad);
    check_out_memory(spec, outs[i], args);
    for (size_t k = 0; k < i; ++k) check_apart(spec, outs[i], outs[k]);
  }
}

}  // namespace detail

}  // namespace cograd
