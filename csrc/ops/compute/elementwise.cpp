// SPDX-License-Identifier: BSD-3-Clause
// Calls of the rows of elementwise.def: dtypes, shapes and targets, and the fast path for small
// tensors.
#include "ops/compute/elementwise.h"

#include <algorithm>
#include <span>

#include "ops/compute/host_values.h"
#include "ops/compute/scalars.h"
#include "ops/compute/unsigned.h"
#include "ops/declare/ops.h"
#include "tensor/sparse.h"
#include "transforms/batch.h"

namespace cograd {

using kernels::BinaryOp;
using kernels::ElementParams;
using kernels::ElementRow;
using kernels::LoopFn;
using kernels::TernaryOp;

void fail_broadcast(const char* name, IntList a, IntList b) {
  const size_t n = std::max(a.size(), b.size());
  for (size_t i = n; i-- > 0;) {
    const int64_t x = i < n - a.size() ? 1 : a[i - (n - a.size())];
    const int64_t y = i < n - b.size() ? 1 : b[i - (n - b.size())];
    if (x != y && x != 1 && y != 1)
      detail::fail(ErrorKind::Runtime, "The size of tensor a (", x,
                   ") must match the size of tensor b (", y, ") at non-singleton dimension ", i,
                   "; ", name, "() got shapes ", to_string(a), " and ", to_string(b));
  }
  detail::fail(ErrorKind::Runtime, name, "(): shapes ", to_string(a), " and ", to_string(b),
               " do not broadcast");
}

namespace {

DType computed_dtype(DType promoted, Rule rule) noexcept {
  if (rule == Rule::Count && promoted == DType::Bool) return DType::Int64;
  return rule == Rule::Float && !is_differentiable(promoted) ? default_dtype() : promoted;
}

// A loop reports integer division by zero through this flag; it never traps.
struct DivisionCheck {
  int flag = 0;
  void check() const { COGRAD_CHECK(flag == 0, "ZeroDivisionError"); }
};

// Returns a new contiguous tensor with the sizes of the contiguous `x`. They need no checks,
// because x has memory for its elements.
Tensor new_like(const Tensor& x, DType dtype) {
  if (x.numel() == 0) [[unlikely]]
    return empty(x.sizes(), dtype);
  TensorImpl* p = TensorImpl::make(dtype, x.dim());
  Tensor out = Tensor::steal(p);
  p->storage = Storage::make(x.numel() * dtype_size(dtype));
  p->data = static_cast<char*>(p->storage->data);
  p->set_contiguous_geometry(x->sizes_);
  return out;
}

// Returns the target of a call, or a new tensor like the contiguous `x`.
inline Tensor out_like(CtxBase& ctx, const Tensor& x, DType dtype) {
  if (ctx.target() != nullptr) [[unlikely]]
    return ctx.out(x.sizes(), dtype);
  return new_like(x, dtype);
}

// Converts an operand, without counting a reference if it has the dtype. The caller has checked
// that its values can be read.
struct Cast {
  Cast(const Tensor& x, DType t) : converted_(x.dtype() == t ? Tensor() : raw_cast(x, t)), x_(x) {}
  const Tensor& get() const noexcept { return converted_.defined() ? converted_ : x_; }

 private:
  const Tensor converted_;
  const Tensor& x_;
};

DType result_dtype(DType compute, Rule rule) noexcept {
  return rule == Rule::Bool ? DType::Bool : compute;
}

inline void check_values(const Tensor& x) {
  check_one_value(x, "an operation that reads values");
  check_not_sparse(x, "an operation that reads values");
}

// A call of a row, and how it computes.
struct RowCall {
  CtxBase& ctx;
  const ElementRow row;
  const char* name;
  const void* params;
  const DType compute, result;
  bool condition_first = false;  // the first operand is bool
  bool new_layout = false;       // a new result is contiguous
};

// Returns an operand in the dtype of the loop. A number may stay on the host.
Tensor converted(const TensorOrScalar& v, DType t, const RowWay& way) {
  if (way.inner == t)
    return v.is_tensor() ? raw_cast(v.tensor(), t) : wrapped_number(v.scalar(), t);
  const Tensor x = v.is_tensor() ? raw_cast(v.tensor(), t) : raw_full({}, t, v.scalar());
  return way.ordered ? in_signed_order(x) : raw_cast(x, way.inner);
}

// Runs the loop of a dtype that can hold the values, and converts what it computed.
[[gnu::noinline]] void run_by_way(const RowWay& way, const Tensor& out,
                                  std::span<const Tensor* const> inputs, const void* params,
                                  int cost) {
  const Tensor made = empty(out.sizes(), way.inner);
  run_elementwise(way.fn, made, inputs, params, cost);
  if (way.ordered)
    from_signed_order(out, made);
  else
    raw_copy(out, made);
}

// Runs a row over operands of any dtypes and geometry. The layout of a new result follows the
// tensors as they were given; `operands` may be these in another dtype.
template <size_t kCount>
Tensor run_row_over(const RowCall& call, const TensorOrScalar* const (&given)[kCount],
                    const TensorOrScalar* const (&operands)[kCount]) {
  const RowWay way = way_of(call.row, call.compute, call.name);
  const bool direct = way.inner == call.compute;
  Tensor held[kCount];
  const Tensor *inputs[kCount], *tensors[kCount];
  size_t n = 0;
  IntList shape;
  Dims wider;
  for (size_t i = 0; i < kCount; ++i) {
    const TensorOrScalar& v = *operands[i];
    const bool condition = call.condition_first && i == 0;
    const DType t = condition ? DType::Bool : call.compute;
    if (v.is_tensor() && v.tensor().dtype() == t && (direct || condition)) [[likely]] {
      check_values(v.tensor());
      inputs[i] = &v.tensor();
    } else {
      held[i] = condition ? raw_cast(v.tensor(), t) : converted(v, t, way);
      inputs[i] = &held[i];
    }
    if (!v.is_tensor()) continue;
    const Tensor& as_given = given[i]->tensor();
    const IntList sizes = as_given.sizes();
    if (n == 0) {
      shape = sizes;
    } else if (!same(shape, sizes)) {
      Dims joint;  // `shape` may refer to `wider`
      if (!broadcast_shapes(shape, sizes, joint)) fail_broadcast(call.name, shape, sizes);
      wider = joint;
      shape = wider;
    }
    tensors[n++] = &as_given;
  }
  Tensor out = call.new_layout ? call.ctx.out(shape, call.result)
                               : call.ctx.out(shape, call.result, {tensors, n});
  if (direct || call.result == DType::Bool) [[likely]]
    run_elementwise(way.fn, out, inputs, call.params, call.row.cost());
  else
    run_by_way(way, out, inputs, call.params, call.row.cost());
  return out;
}

template <size_t kCount>
Tensor run_row_over(const RowCall& call, const TensorOrScalar* const (&given)[kCount]) {
  return run_row_over(call, given, given);
}

// True if a result would be contiguous.
bool writes_contiguous(const CtxBase& ctx) noexcept {
  return ctx.target() == nullptr || ctx.target()->is_contiguous();
}

// True if the short paths take `x`; out_like() then returns a contiguous tensor.
[[gnu::always_inline]] inline bool is_direct(const CtxBase& ctx, const Tensor& x) {
  check_values(x);
  return x.is_contiguous() && x.numel() <= kDirectMax && writes_contiguous(ctx);
}

// Runs `fn` over contiguous tensors of one shape.
template <class... In>
[[gnu::always_inline]] inline void run_alike(LoopFn fn, const void* params, const Tensor& out,
                                             const In&... in) {
  char* const ptrs[] = {out.bytes(), in.bytes()...};
  const int64_t steps[] = {out.itemsize(), in.itemsize()...};
  kernels::run_row(fn, ptrs, steps, out.numel(), params);
}

// Computes small contiguous operands of one shape and dtype, the most frequent call. Returns an
// undefined tensor if the operands are not such.
Tensor binary_direct(CtxBase& ctx, BinaryOp op, const Tensor& a, const Tensor& b, Rule rule,
                     ElementParams* params) {
  const DType t = a.dtype();
  if (t != b.dtype() || !is_direct(ctx, a) || !is_direct(ctx, b) || !same(a.sizes(), b.sizes()) ||
      computed_dtype(t, rule) != t)
    return Tensor();
  const LoopFn fn = ElementRow(op).loop(t);
  if (fn == nullptr) [[unlikely]]
    return Tensor();
  Tensor out = out_like(ctx, a, result_dtype(t, rule));
  run_alike(fn, params, out, a, b);
  return out;
}

}  // namespace

Tensor unary_op(CtxBase& ctx, kernels::UnaryOp op, const Tensor& x, Rule rule, const char* name,
                const ElementParams* params) {
  const ElementRow row(op);
  const DType compute = computed_dtype(x.dtype(), rule);
  const DType result = result_dtype(compute, rule);
  const LoopFn fn = row.loop(compute);
  if (fn != nullptr && is_direct(ctx, x)) [[likely]] {
    const Cast cast(x, compute);
    const Tensor& in = cast.get();
    Tensor out = out_like(ctx, x, result);
    run_alike(fn, params, out, in);
    return out;
  }
  const TensorOrScalar operand(x);
  const TensorOrScalar* const given[1] = {&operand};
  return run_row_over({ctx, row, name, params, compute, result}, given);
}

namespace {

// True if torch uses the scalar of this op in full precision beside 16-bit floats. torch computes
// scalar / tensor as a product with the reciprocal.
bool keeps_number(kernels::BinaryOp op, bool left) {
  const bool quotient =
      op == BinaryOp::div_floor || op == BinaryOp::div_trunc || op == BinaryOp::floor_divide;
  return op == BinaryOp::mul || op == BinaryOp::div || (quotient && !left);
}

// Computes an op of a tensor and a scalar; the loop reads the scalar as one element with stride 0.
Tensor binary_with_scalar(CtxBase& ctx, BinaryOp op, const TensorOrScalar& a,
                          const TensorOrScalar& b, Rule rule, const char* name,
                          ElementParams* params) {
  const bool left = !a.is_tensor();
  const Tensor& x = left ? b.tensor() : a.tensor();
  const Scalar s = left ? a.scalar() : b.scalar();
  const bool strong = (is_complex(x.dtype()) || (is_floating(x.dtype()) && !s.is_complex())) &&
                      (x->flags & kWrappedNumber) == 0;
  const DType compute =
      strong ? x.dtype() : computed_dtype(result_type(x, TensorOrScalar(s)), rule);
  if (is_half(compute) && keeps_number(op, left)) [[unlikely]] {
    if (params == nullptr) {
      ElementParams own;
      return binary_with_scalar(ctx, op, a, b, rule, name, &own);
    }
    params->number_at = left ? 1 : 2;
    params->number = static_cast<float>(s.to_double());
  }
  const ElementRow row(op);
  const DType result = result_dtype(compute, rule);
  const LoopFn fn = row.loop(compute);
  if (fn != nullptr && is_direct(ctx, x)) [[likely]] {
    const Cast cast(x, compute);
    const Tensor& in = cast.get();
    Tensor out = out_like(ctx, x, result);
    ScalarBytes number(s, compute);
    const int64_t step = in.itemsize();
    char* ptrs[3] = {out.bytes(), left ? number.bytes : in.bytes(),
                     left ? in.bytes() : number.bytes};
    const int64_t steps[3] = {out.itemsize(), left ? 0 : step, left ? step : 0};
    kernels::run_row(fn, ptrs, steps, in.numel(), params);
    return out;
  }
  const TensorOrScalar* const given[2] = {&a, &b};
  // torch computes number ** tensor into a new contiguous tensor.
  const bool new_layout = left && op == BinaryOp::pow_tensor;
  return run_row_over({ctx, row, name, params, compute, result, false, new_layout}, given);
}

// Returns what is left of binary_op() once the operands are not small, contiguous and alike.
Tensor binary_of_tensors(CtxBase& ctx, BinaryOp op, const TensorOrScalar& a,
                         const TensorOrScalar& b, Rule rule, const char* name,
                         ElementParams* params) {
  const Tensor& ta = a.tensor();
  const Tensor& tb = b.tensor();
  const bool same_type = ta.dtype() == tb.dtype();
  const DType compute = computed_dtype(same_type ? ta.dtype() : result_type(a, b), rule);
  if (!same_type && is_half(compute) && keeps_number(op, ta.dim() == 0) &&
      (ta.dim() == 0) != (tb.dim() == 0)) {
    const Tensor& number = ta.dim() == 0 ? ta : tb;
    if (number.dtype() != compute) {
      const Scalar s(host_value<double>(raw_cast(number, DType::Float64)));
      return binary_with_scalar(ctx, op, ta.dim() == 0 ? TensorOrScalar(s) : a,
                                ta.dim() == 0 ? b : TensorOrScalar(s), rule, name, params);
    }
  }
  const RowCall call{ctx, op, name, params, compute, result_dtype(compute, rule)};
  const TensorOrScalar* const given[2] = {&a, &b};
  if (ta.dtype() == compute && tb.dtype() == compute) return run_row_over(call, given);
  const Tensor xa = raw_cast(ta, compute), xb = raw_cast(tb, compute);
  if (Tensor out = binary_direct(ctx, op, xa, xb, rule, params); out.defined()) return out;
  const TensorOrScalar ca(xa), cb(xb);
  const TensorOrScalar* const operands[2] = {&ca, &cb};
  return run_row_over(call, given, operands);
}

}  // namespace

Tensor binary_op(CtxBase& ctx, BinaryOp op, const TensorOrScalar& a, const TensorOrScalar& b,
                 Rule rule, const char* name, ElementParams* params) {
  if (!a.is_tensor() && !b.is_tensor())
    return binary_op(ctx, op, wrapped_number(a.scalar()), b, rule, name, params);
  DivisionCheck division;
  if (params != nullptr) params->division_by_zero = &division.flag;
  Tensor out;
  if (!a.is_tensor() || !b.is_tensor()) {
    out = binary_with_scalar(ctx, op, a, b, rule, name, params);
  } else {
    out = binary_direct(ctx, op, a.tensor(), b.tensor(), rule, params);
    if (!out.defined()) [[unlikely]]
      out = binary_of_tensors(ctx, op, a, b, rule, name, params);
  }
  division.check();
  return out;
}

namespace {

void check_numbers(const char* name, std::span<const TensorOrScalar* const> given, DType t) {
  for (const TensorOrScalar* v : given)
    if (!v->is_tensor()) check_number(name, "value", v->scalar(), t, OutOfRange::Inf);
}

}  // namespace

Tensor ternary_op(CtxBase& ctx, TernaryOp op, const TensorOrScalar& a, const TensorOrScalar& b,
                  const TensorOrScalar& c, Rule rule, const char* name,
                  const ElementParams* params) {
  const TensorOrScalar* const given[3] = {&a, &b, &c};
  ResultType type;
  for (const TensorOrScalar* v : given) type.add(*v);
  const DType compute = computed_dtype(type.get(), rule);
  check_numbers(name, given, compute);
  return run_row_over({ctx, op, name, params, compute, compute}, given);
}

Tensor where_op(CtxBase& ctx, const Tensor& cond, const TensorOrScalar& a,
                const TensorOrScalar& b) {
  COGRAD_CHECK(cond.dtype() == DType::Bool || cond.dtype() == DType::UInt8,
               "where expected condition to be a boolean tensor, but got a tensor with dtype ",
               dtype_name(cond.dtype()));
  const TensorOrScalar condition(cond);
  const TensorOrScalar* const given[3] = {&condition, &a, &b};
  const DType compute = result_type(a, b);
  check_numbers("where", given, compute);
  return run_row_over({ctx, TernaryOp::where, "where", nullptr, compute, compute, true}, given);
}

namespace {

// True if only the caller's reference leads to g and to its memory, so that g can be overwritten.
// Foreign memory may have an owner who reads it later. Under a transform, a caller may use the
// gradients that it passed to a node once more.
inline bool is_ours(const Tensor& g) {
  const TensorImpl& t = *g.impl();
  return t.refs.load(std::memory_order_acquire) == 1 && t.storage->unique() &&
         t.storage->kind <= 1 && !t.storage->read_only && t.flags == kContiguous &&
         t.base == nullptr && t.grad_fn == nullptr && t.meta == nullptr && t.pyobj == nullptr &&
         t.own_version == nullptr && !stages_open();
}

// True if `t` broadcasts to g's shape without changing that.
bool broadcasts_to(const Tensor& t, const Tensor& g) noexcept {
  const int lead = g.dim() - t.dim();
  if (lead < 0) return false;
  for (int i = 0; i < t.dim(); ++i)
    if (t.size(i) != 1 && t.size(i) != g.size(i + lead)) return false;
  return true;
}

// Does what gradient_of() does for operands of any size and geometry that g's shape covers.
[[gnu::noinline]] Tensor gradient_over(LoopFn fn, const Tensor& g,
                                       std::span<const Tensor* const> saved, const void* params,
                                       bool last, int cost) {
  const Tensor* inputs[kernels::kMaxOperands] = {&g};
  bool ordered = g.is_contiguous(), direct = g.numel() <= kDirectMax;
  for (size_t i = 0; i < saved.size(); ++i) {
    const Tensor& t = *saved[i];
    if (t.dtype() != g.dtype() || !broadcasts_to(t, g)) return Tensor();
    ordered &= t.is_contiguous();
    direct &= t.numel() == 1 || t.numel() == g.numel();
    inputs[i + 1] = &t;
  }
  direct &= ordered;
  const std::span<const Tensor* const> in(inputs, saved.size() + 1);
  CtxBase plain;
  Tensor out = last && ordered && is_ours(g) ? g
               : direct                      ? new_like(g, g.dtype())
                                             : plain.out(g.sizes(), g.dtype(), in);
  run_elementwise(fn, out, in, params, direct ? 1 : cost);
  return out;
}

// Runs a gradient's loop over g and the saved tensors; see fused_backward().
template <size_t kCount>
[[gnu::always_inline]] inline Tensor gradient_of(LoopFn fn, const Tensor& g,
                                                 std::span<const Tensor* const> saved,
                                                 const void* params, bool last, int cost) {
  bool alike = g.is_contiguous() && g.numel() <= kDirectMax;
#pragma GCC unroll 4
  for (size_t i = 0; i < kCount; ++i)
    alike = alike && saved[i]->dtype() == g.dtype() && saved[i]->is_contiguous() &&
            same(saved[i]->sizes(), g.sizes());
  if (!alike) [[unlikely]]
    return gradient_over(fn, g, saved.first(kCount), params, last, cost);
  Tensor out = last && is_ours(g) ? g : new_like(g, g.dtype());
  [&]<size_t... I>(std::index_sequence<I...>) {
    run_alike(fn, params, out, g, *saved[I]...);
  }(std::make_index_sequence<kCount>());
  return out;
}

}  // namespace

Tensor gradient_step(BinaryOp op, const Tensor& g, const Tensor& v, bool last) {
  if (stages_open() || thread_state.taint || thread_state.inference) [[unlikely]]
    return Tensor();
  const Tensor* const saved[1] = {&v};
  return gradient_of<1>(ElementRow(op).loop(g.dtype()), g, saved, nullptr, last, 1);
}

Tensor fused_backward(LoopFn fn, const Tensor& g, std::span<const Tensor* const> saved,
                      const void* params, bool last) {
  constexpr int kCost = 4;
  // Ops mark what they make under inference_mode; a loop alone does not.
  if (fn == nullptr || thread_state.taint || thread_state.inference) [[unlikely]]
    return Tensor();
  if (saved.size() == 1) return gradient_of<1>(fn, g, saved, params, last, kCost);
  if (saved.size() == 2) return gradient_of<2>(fn, g, saved, params, last, kCost);
  return gradient_over(fn, g, saved, params, last, kCost);
}

}  // namespace cograd
