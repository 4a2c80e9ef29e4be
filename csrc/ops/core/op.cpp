// SPDX-License-Identifier: BSD-3-Clause
// In-place and out= targets, node names: the parts of the op mechanism that are not templates.
#include "ops/core/op.h"

#include <algorithm>
#include <cctype>

#include "autograd/batch.h"
#include "ops/core/ops.h"
#include "ops/core/raw.h"
#include "ops/core/resize.h"

namespace cograd {

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

// First and one-past-last byte a strided tensor touches.
std::pair<const char*, const char*> extent(const Tensor& t) {
  const char* lo = t.bytes();
  const char* hi = t.bytes() + t.itemsize();
  for (int i = 0; i < t.dim(); ++i) {
    const int64_t span = (t.size(i) - 1) * t.stride(i) * t.itemsize();
    (span < 0 ? lo : hi) += span;
  }
  return {lo, hi};
}

bool shares_elements(const Tensor& t) {
  for (int i = 0; i < t.dim(); ++i)
    if (t.size(i) > 1 && t.stride(i) == 0) return true;
  return false;
}

// Whether elements of two tensors with the same strides can have one address, `d` elements apart.
// Exact where inner dims lie within one step of the outer ones, as in slices; else it may say yes.
bool same_address(const Tensor& out, const Tensor& in, std::span<const int> dims, int64_t d) {
  if (dims.empty()) return d == 0;
  const int k = dims[0];
  const int64_t stride = out.stride(k);
  if (stride == 0 || (out.size(k) == 1 && in.size(k) == 1))
    return same_address(out, in, dims.subspan(1), d);
  const int64_t floor = d >= 0 ? d / stride : -((stride - 1 - d) / stride);
  for (const int64_t i : {floor, floor + 1})
    if (i > -in.size(k) && i < out.size(k) &&
        same_address(out, in, dims.subspan(1), d - i * stride))
      return true;
  return false;
}

bool share_elements(const Tensor& out, const Tensor& in) {
  if (out.dtype() != in.dtype() || !same(out.strides(), in.strides()) || out.dim() > 8) return true;
  const int64_t bytes = in.bytes() - out.bytes();
  if (bytes % out.itemsize() != 0) return true;
  int dims[8];
  for (int i = 0; i < out.dim(); ++i) dims[i] = i;
  std::sort(dims, dims + out.dim(), [&](int a, int b) { return out.stride(a) > out.stride(b); });
  int64_t within = 0;  // how far the inner dims reach
  for (int i = out.dim() - 1; i >= 0; --i) {
    const int k = dims[i];
    if (out.stride(k) <= within && out.size(k) > 1) return true;
    within += out.stride(k) * (std::max(out.size(k), in.size(k)) - 1);
  }
  return same_address(out, in, {dims, static_cast<size_t>(out.dim())}, bytes / out.itemsize());
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && a.dtype() == b.dtype() && same(a.sizes(), b.sizes()) &&
         same(a.strides(), b.strides());
}

// True if writing `out` element by element could change `in` before it is read.
bool overlaps_partially(const Tensor& out, const Tensor& in) {
  if (out->storage != in->storage || out.numel() == 0 || in.numel() == 0) return false;
  if (same_elements(out, in)) return false;
  const auto [a0, a1] = extent(out);
  const auto [b0, b1] = extent(in);
  return a0 < b1 && b0 < a1 && share_elements(out, in);
}

[[noreturn, gnu::cold]] void fail_overlap(const char* op) {
  detail::fail(ErrorKind::Runtime, op,
               "(): unsupported operation: some elements of the input tensor and the written-to "
               "tensor refer to a single memory location. Please clone() the tensor before "
               "performing the operation.");
}

void check_distinct(const char* op, const Tensor& t) {
  COGRAD_CHECK(!shares_elements(t), op,
               "(): unsupported operation: more than one element of the written-to tensor refers "
               "to a single memory location. Please clone() the tensor before performing the "
               "operation.");
}

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

Tensor CtxBase::keep_target(const Tensor& t) {
  GradGuard grad(requires_grad(t));
  return clone(t);
}

namespace detail {

void fail_numbers_only(const char* op, const Value& first) {
  const Scalar s = first.scalar();
  const char* kind = s.is_complex() ? "complex"
                     : s.is_float() ? "float"
                     : s.is_bool()  ? "bool"
                                    : "int";
  fail(ErrorKind::Type, op, "(): argument 'input' (position 1) must be Tensor, not ", kind);
}

void connect_wanted(Node* n, const Tensor* t, const TensorSet& wanted) {
  Edge e{};
  if (t != nullptr && t->defined()) {
    e = gradient_edge(t->impl());
    if (e.node == nullptr && wanted.contains(t->impl())) e = wanted_edge();
  }
  n->add_edge(e.node, e.input_nr);
}
void fail_complex(const char* op, DType t) {
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

void mark_outputs(const Tensor& t, uint32_t flags) {
  // A view or an argument handed back keeps what it was.
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

void finish_target(const OpSpec& op, const Tensor& target, const Tensor& result, bool inplace) {
  check_result(op, target, result.dtype(), !inplace && (op.flags & kExactOut) != 0);
  if (inplace)
    check_shape_inplace(target, result.sizes());
  else
    resize_out(op.name, target, result);
  if (thread_state.grad_enabled)
    copy_(target, result);
  else
    raw_copy(target, result);
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
  note_write(out, op);
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

// Two that get another shape in one memory would come to overlap.
void check_apart(const OpSpec& spec, const Tensor& a, const Tensor& b) {
  if (a.is(b) || overlaps_partially(a, b) ||
      (a->storage == b->storage && (same_elements(a, b) || a.numel() == 0 || b.numel() == 0)))
    fail_overlap(spec.name);
}

}  // namespace

void check_outs(const OpSpec& spec, TensorList outs, std::span<const Value> args, bool any_grad) {
  for (size_t i = 0; i < outs.size(); ++i) {
    check_one_value(outs[i], "an operation with out=");
    check_out(spec.name, outs[i], any_grad);
    check_out_memory(spec, outs[i], args);
    for (size_t k = 0; k < i; ++k) check_apart(spec, outs[i], outs[k]);
  }
}

}  // namespace detail

}  // namespace cograd
