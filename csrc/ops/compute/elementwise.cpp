// SPDX-License-Identifier: BSD-3-Clause
// Elementwise computation: shapes, promotion, the fast path for small tensors, targets.
#include "ops/compute/elementwise.h"
#include "ops/compute/host_values.h"

#include <bit>
#include <cstring>

#include "transforms/batch.h"
#include "ops/compute/scalars.h"
#include "ops/compute/strides.h"
#include "ops/compute/unsigned.h"
#include "ops/declare/ops.h"
#include "tensor/sparse.h"

namespace cograd {

using kernels::LoopFn;

namespace {

constexpr int64_t kDirectMax = 16384;  // for more elements the loop runs in the iterator

Dims byte_strides(IntList strides, int64_t itemsize) {
  Dims out(strides);
  for (int64_t& s : out) s = scaled_stride(s, itemsize);
  return out;
}

}  // namespace

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

// Converts with a single rounding: a detour through double could round large integers twice.
float as_float(const Scalar& s) {
  if (s.is_large()) return static_cast<float>(static_cast<uint64_t>(s.to_int()));
  if (s.is_float() || s.is_complex()) return static_cast<float>(s.to_double());
  return static_cast<float>(s.to_int());
}

}  // namespace

ScalarBytes::ScalarBytes(Scalar s, DType t) {
  if (t == DType::Float32 && !s.is_complex()) [[likely]] {
    const float v = as_float(s);
    std::memcpy(bytes, &v, sizeof v);
    return;
  }
  COGRAD_CHECK(!s.is_complex() || is_complex(t) || t == DType::Bool || s.imag() == 0,
               "value cannot be converted to type ", dtype_name(t),
               " without overflow: it has an imaginary part of ", s.imag());
  dispatch_all(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T v;
    if constexpr (is_complex_type<T>)
      v = T(s.to_complex());
    else if constexpr (std::is_same_v<T, bool>)
      v = s.to_bool();
    else if constexpr (std::is_integral_v<T>)
      v = static_cast<T>(is_wide_unsigned(t) ? unsigned_bits(s) : s.to_int());
    else if constexpr (std::is_same_v<T, double>)
      v = s.to_double();
    else
      v = T(as_float(s));
    std::memcpy(bytes, &v, sizeof v);
  });
}

Dims broadcast_strides(const Tensor& t, IntList sizes) {
  Dims out(sizes.size());
  const size_t skip = sizes.size() - static_cast<size_t>(t.dim());
  for (size_t i = skip; i < sizes.size(); ++i)
    out[i] = t.sizes()[i - skip] == 1 && sizes[i] != 1 ? 0 : t.strides()[i - skip];
  return out;
}

void run_elementwise(LoopFn fn, const Tensor& out, std::span<const Tensor* const> inputs,
                     const void* params, int cost) {
  if (out.numel() == 0) return;
  Dims strides[kernels::kMaxOperands];
  kernels::Operand operands[kernels::kMaxOperands];
  strides[0] = byte_strides(out.strides(), out.itemsize());
  operands[0] = {out.bytes(), strides[0].data()};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = *inputs[i];
    strides[i + 1] = byte_strides(broadcast_strides(t, out.sizes()), t.itemsize());
    operands[i + 1] = {t.bytes(), strides[i + 1].data()};
  }
  kernels::run_loop(fn, out.dim(), out.sizes().data(), operands,
                    static_cast<int>(inputs.size()) + 1, params, cost);
}

void raw_copy(const Tensor& dst, const Tensor& src) {
  if (dst.numel() == 0) return;
  if (dst.is_contiguous() && src.is_contiguous() && dst.numel() == src.numel() &&
      dst.numel() <= kDirectMax) {
    char* ptrs[2] = {dst.bytes(), src.bytes()};
    const int64_t steps[2] = {dst.itemsize(), src.itemsize()};
    kernels::run_row(kernels::cast_loop(src.dtype(), dst.dtype()), ptrs, steps, dst.numel(),
                     nullptr);
    return;
  }
  const Dims to = byte_strides(dst.strides(), dst.itemsize());
  const Dims from = byte_strides(broadcast_strides(src, dst.sizes()), src.itemsize());
  kernels::copy_strided(src.dtype(), dst.dtype(), dst.dim(), dst.sizes().data(),
                        {dst.bytes(), to.data()}, {src.bytes(), from.data()});
}

Tensor raw_cast(const Tensor& x, DType t) {
  check_one_value(x, "an operation that reads values");
  check_not_sparse(x, "an operation that reads values");
  if (x.dtype() == t) return x;
  Tensor out = empty_preserving(x, t);
  raw_copy(out, x);
  return out;
}

Tensor raw_contiguous(const Tensor& x) {
  check_one_value(x, "an operation that reads values");
  check_not_sparse(x, "an operation that reads values");
  if (x.is_contiguous()) return x;
  Tensor out = empty(x.sizes(), x.dtype());
  raw_copy(out, x);
  return out;
}

void raw_fill(const Tensor& t, Scalar v) {
  const ScalarBytes bytes(v, t.dtype());
  run_elementwise(kernels::fill_loop(t.dtype()), t, {}, bytes.bytes);
}

Tensor raw_full(IntList sizes, DType t, Scalar v) {
  Tensor out = empty(sizes, t);
  raw_fill(out, v);
  return out;
}

Tensor wrapped_number(Scalar s, DType t) {
  const PlaceGuard host(kHost);
  Tensor out = empty({}, t);
  std::memcpy(out.bytes(), ScalarBytes(s, t).bytes, static_cast<size_t>(out.itemsize()));
  out->flags |= kWrappedNumber;
  return out;
}

namespace {

// Returns the target of a call, or a new contiguous tensor with the sizes of the contiguous `x`:
// these need no checks, because x has memory for its elements.
Tensor out_like(CtxBase& ctx, const Tensor& x, DType dtype) {
  if (ctx.target() != nullptr || x.numel() == 0) [[unlikely]]
    return ctx.out(x.sizes(), dtype);
  TensorImpl* p = TensorImpl::make(dtype, x.dim());
  Tensor out = Tensor::steal(p);
  p->storage = Storage::make(x.numel() * dtype_size(dtype));
  p->data = static_cast<char*>(p->storage->data);
  p->set_contiguous_geometry(x->sizes_);
  return out;
}

// Converts an operand as raw_cast does, but without counting a reference if it has the dtype.
struct Cast {
  Cast(const Tensor& x, DType t) : converted_(x.dtype() == t ? Tensor() : raw_cast(x, t)), x_(x) {
    check_one_value(x, "an operation that reads values");
    check_not_sparse(x, "an operation that reads values");
  }
  const Tensor& get() const noexcept { return converted_.defined() ? converted_ : x_; }

 private:
  const Tensor converted_;
  const Tensor& x_;
};

}  // namespace

Tensor unary_op(CtxBase& ctx, kernels::UnaryOp op, const Tensor& x, Rule rule, const char* name,
                const kernels::ElementParams* params) {
  const DType compute = computed_dtype(x.dtype(), rule);
  const LoopFn fn = kernels::unary_loop(op, compute);
  if (fn == nullptr) [[unlikely]]
    return unsigned_unary(ctx, op, x, compute, rule, name, params);
  const Cast cast(x, compute);
  const Tensor& in = cast.get();
  const DType result = rule == Rule::Bool ? DType::Bool : compute;
  const Tensor* inputs[1] = {&x};
  Tensor out = x.is_contiguous() ? out_like(ctx, x, result) : ctx.out(x.sizes(), result, inputs);
  if (out.is_contiguous() && in.is_contiguous() && in.numel() <= kDirectMax) {
    char* ptrs[2] = {out.bytes(), in.bytes()};
    const int64_t steps[2] = {out.itemsize(), in.itemsize()};
    kernels::run_row(fn, ptrs, steps, in.numel(), params);
    return out;
  }
  inputs[0] = &in;
  run_elementwise(fn, out, inputs, params, kernels::unary_cost(op));
  return out;
}

namespace {

// True if torch uses the scalar of this op in full precision beside 16-bit floats. torch computes
// scalar / tensor as a product with the reciprocal.
bool keeps_number(kernels::BinaryOp op, bool left) {
  using kernels::BinaryOp;
  const bool quotient =
      op == BinaryOp::div_floor || op == BinaryOp::div_trunc || op == BinaryOp::floor_divide;
  return op == BinaryOp::mul || op == BinaryOp::div || (quotient && !left);
}

// Computes an op of a tensor and a scalar; the loop reads the scalar as one element with stride 0.
Tensor binary_with_scalar(CtxBase& ctx, kernels::BinaryOp op, const TensorOrScalar& a,
                          const TensorOrScalar& b, Rule rule, const char* name,
                          kernels::ElementParams* params) {
  const bool left = !a.is_tensor();
  const Tensor& x = left ? b.tensor() : a.tensor();
  const Scalar s = left ? a.scalar() : b.scalar();
  const bool strong = (is_complex(x.dtype()) || (is_floating(x.dtype()) && !s.is_complex())) &&
                      (x->flags & kWrappedNumber) == 0;
  const DType compute =
      strong ? x.dtype() : computed_dtype(result_type(x, TensorOrScalar(s)), rule);
  if (is_half(compute) && keeps_number(op, left)) [[unlikely]] {
    if (params == nullptr) {
      kernels::ElementParams own;
      return binary_with_scalar(ctx, op, a, b, rule, name, &own);
    }
    params->number_at = left ? 1 : 2;
    params->number = static_cast<float>(s.to_double());
  }
  const LoopFn fn = kernels::binary_loop(op, compute);
  if (fn == nullptr) [[unlikely]]
    return unsigned_binary(ctx, op, a, b, compute, rule, name, params);
  const Cast cast(x, compute);
  const Tensor& in = cast.get();
  const DType result = rule == Rule::Bool ? DType::Bool : compute;
  const Tensor* const tensors[1] = {&x};
  // torch computes number ** tensor into a new contiguous tensor.
  const bool plain = left && op == kernels::BinaryOp::pow_tensor;
  Tensor out;
  if (x.is_contiguous())
    out = out_like(ctx, x, result);
  else
    out = plain ? ctx.out(x.sizes(), result) : ctx.out(x.sizes(), result, tensors);
  ScalarBytes number(s, compute);
  const int64_t n = in.numel();
  if (out.is_contiguous() && in.is_contiguous() && n <= kDirectMax) {
    const int64_t step = in.itemsize();
    char* ptrs[3] = {out.bytes(), left ? number.bytes : in.bytes(),
                     left ? in.bytes() : number.bytes};
    const int64_t steps[3] = {out.itemsize(), left ? 0 : step, left ? step : 0};
    kernels::run_row(fn, ptrs, steps, n, params);
    return out;
  }
  const Tensor boxed = raw_full({}, compute, s);  // wraps integers as torch does
  const Tensor* inputs[2] = {left ? &boxed : &in, left ? &in : &boxed};
  run_elementwise(fn, out, inputs, params, kernels::binary_cost(op));
  return out;
}

}  // namespace

namespace {

[[gnu::always_inline]] inline bool is_direct(const Tensor& x) {
  check_one_value(x, "an operation that reads values");
  check_not_sparse(x, "an operation that reads values");
  return x.is_contiguous() && x.numel() <= kDirectMax;
}

// Computes small contiguous operands of one shape and dtype, the most frequent call. Returns an
// undefined tensor if the operands are not such.
Tensor binary_direct(CtxBase& ctx, kernels::BinaryOp op, const Tensor& a, const Tensor& b,
                     Rule rule, kernels::ElementParams* params) {
  const DType t = a.dtype();
  if (t != b.dtype() || !is_direct(a) || !is_direct(b) || !same(a.sizes(), b.sizes()) ||
      computed_dtype(t, rule) != t)
    return Tensor();
  const LoopFn fn = kernels::binary_loop(op, t);
  if (fn == nullptr) [[unlikely]]
    return Tensor();
  Tensor out = out_like(ctx, a, rule == Rule::Bool ? DType::Bool : t);
  if (!out.is_contiguous()) [[unlikely]]
    return Tensor();
  char* ptrs[3] = {out.bytes(), a.bytes(), b.bytes()};
  const int64_t steps[3] = {out.itemsize(), a.itemsize(), b.itemsize()};
  kernels::run_row(fn, ptrs, steps, a.numel(), params);
  return out;
}

}  // namespace

Tensor binary_op(CtxBase& ctx, kernels::BinaryOp op, const TensorOrScalar& a,
                 const TensorOrScalar& b, Rule rule, const char* name,
                 kernels::ElementParams* params) {
  DivisionCheck division;
  if (params != nullptr) params->division_by_zero = &division.flag;
  if (!a.is_tensor() || !b.is_tensor()) {
    if (!a.is_tensor() && !b.is_tensor()) {
      const Tensor boxed = wrapped_number(a.scalar());
      return binary_op(ctx, op, boxed, b, rule, name, params);
    }
    Tensor out = binary_with_scalar(ctx, op, a, b, rule, name, params);
    division.check();
    return out;
  }
  const Tensor& ta = a.tensor();
  const Tensor& tb = b.tensor();
  if (Tensor out = binary_direct(ctx, op, ta, tb, rule, params); out.defined()) [[likely]] {
    division.check();
    return out;
  }
  const bool same_type = ta.dtype() == tb.dtype();
  const DType compute = computed_dtype(same_type ? ta.dtype() : result_type(a, b), rule);
  if (!same_type && is_half(compute) && keeps_number(op, ta.dim() == 0) &&
      (ta.dim() == 0) != (tb.dim() == 0)) {
    const Tensor& number = ta.dim() == 0 ? ta : tb;
    if (number.dtype() != compute) {
      const Scalar s(host_value<double>(raw_cast(number, DType::Float64)));
      return binary_op(ctx, op, ta.dim() == 0 ? TensorOrScalar(s) : a,
                       ta.dim() == 0 ? b : TensorOrScalar(s), rule, name, params);
    }
  }
  const LoopFn fn = kernels::binary_loop(op, compute);
  if (fn == nullptr) [[unlikely]] {
    Tensor out = unsigned_binary(ctx, op, a, b, compute, rule, name, params);
    division.check();
    return out;
  }
  const Tensor xa = raw_cast(ta, compute);
  const Tensor xb = raw_cast(tb, compute);
  if (!xa.is(ta) || !xb.is(tb)) {
    if (Tensor out = binary_direct(ctx, op, xa, xb, rule, params); out.defined()) {
      division.check();
      return out;
    }
  }
  const DType result = rule == Rule::Bool ? DType::Bool : compute;
  Dims shape;
  if (!broadcast_shapes(ta.sizes(), tb.sizes(), shape))
    fail_broadcast(name, ta.sizes(), tb.sizes());
  const Tensor* inputs[2] = {&ta, &tb};
  Tensor out = ctx.out(shape, result, inputs);
  inputs[0] = &xa;
  inputs[1] = &xb;
  run_elementwise(fn, out, inputs, params, kernels::binary_cost(op));
  division.check();
  return out;
}

namespace {

Tensor operand_as(const char* op, const TensorOrScalar& v, DType t) {
  if (v.is_tensor()) return raw_cast(v.tensor(), t);
  check_number(op, "value", v.scalar(), t, OutOfRange::Inf);
  return wrapped_number(v.scalar(), t);
}

// The result takes its layout from the operands as they were before conversion to `t`.
Tensor run_ternary(CtxBase& ctx, kernels::TernaryOp op, const Tensor& first,
                   const TensorOrScalar& second, const TensorOrScalar& third, DType t,
                   const char* name, const kernels::ElementParams* params) {
  const LoopFn fn = kernels::ternary_loop(op, t);
  if (fn == nullptr) [[unlikely]]
    return unsigned_ternary(ctx, op, first, second, third, t, name, params);
  const Tensor b = operand_as(name, second, t), c = operand_as(name, third, t);
  const Tensor* in[3] = {&first, second.is_tensor() ? &second.tensor() : &b,
                         third.is_tensor() ? &third.tensor() : &c};
  const bool cond = op == kernels::TernaryOp::where;
  Dims some, shape;
  if (!broadcast_shapes(b.sizes(), c.sizes(), some)) fail_broadcast(name, b.sizes(), c.sizes());
  if (!broadcast_shapes(first.sizes(), some, shape)) fail_broadcast(name, first.sizes(), some);
  Tensor out = ctx.out(shape, t, in);
  const Tensor a = raw_cast(first, cond ? DType::Bool : t);
  in[0] = &a;
  in[1] = &b;
  in[2] = &c;
  run_elementwise(fn, out, in, params, kernels::ternary_cost(op));
  return out;
}

}  // namespace

Tensor ternary_op(CtxBase& ctx, kernels::TernaryOp op, const TensorOrScalar& a,
                  const TensorOrScalar& b, const TensorOrScalar& c, Rule rule, const char* name,
                  const kernels::ElementParams* params) {
  ResultType type;
  type.add(a);
  type.add(b);
  type.add(c);
  const DType compute = computed_dtype(type.get(), rule);
  const Tensor boxed = a.is_tensor() ? a.tensor() : operand_as(name, a, compute);
  return run_ternary(ctx, op, boxed, b, c, compute, name, params);
}

Tensor where_op(CtxBase& ctx, const Tensor& cond, const TensorOrScalar& a,
                const TensorOrScalar& b) {
  COGRAD_CHECK(cond.dtype() == DType::Bool || cond.dtype() == DType::UInt8,
               "where expected condition to be a boolean tensor, but got a tensor with dtype ",
               dtype_name(cond.dtype()));
  const DType compute = result_type(a, b);
  return run_ternary(ctx, kernels::TernaryOp::where, cond, a, b, compute, "where", nullptr);
}

Tensor fused_backward(LoopFn fn, const Tensor& g, std::span<const Tensor* const> saved,
                      const void* params) {
  if (fn == nullptr) return Tensor();
  const Tensor* inputs[kernels::kMaxOperands];
  inputs[0] = &g;
  bool direct = g.is_contiguous() && g.numel() <= kDirectMax;
  for (size_t i = 0; i < saved.size(); ++i) {
    const Tensor& t = *saved[i];
    const bool number = (t->flags & kWrappedNumber) != 0;
    if (t.dtype() != g.dtype() || (!number && !same(t.sizes(), g.sizes()))) return Tensor();
    direct &= t.is_contiguous();
    inputs[i + 1] = &t;
  }
  if (!direct) {
    CtxBase plain;
    Tensor out = plain.out(g.sizes(), g.dtype(), {inputs, saved.size() + 1});
    run_elementwise(fn, out, {inputs, saved.size() + 1}, params, 4);
    return out;
  }
  Tensor out = empty(g.sizes(), g.dtype());
  char* ptrs[kernels::kMaxOperands] = {out.bytes(), g.bytes()};
  int64_t steps[kernels::kMaxOperands] = {out.itemsize(), g.itemsize()};
  for (size_t i = 0; i < saved.size(); ++i) {
    ptrs[i + 2] = saved[i]->bytes();
    steps[i + 2] = (*saved[i])->flags & kWrappedNumber ? 0 : saved[i]->itemsize();
  }
  kernels::run_row(fn, ptrs, steps, g.numel(), params);
  return out;
}

}  // namespace cograd
