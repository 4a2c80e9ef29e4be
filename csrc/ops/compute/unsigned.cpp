// SPDX-License-Identifier: BSD-3-Clause
// Computes unsigned integers on signed ones of the same order, or wide enough for their values.
#include "ops/compute/unsigned.h"

#include <cmath>
#include <cstring>

#include "ops/declare/ops.h"

namespace cograd {

using kernels::LoopFn;

namespace {

// Returns a view of the same bytes as signed integers.
Tensor twin_of(const Tensor& x) {
  Tensor out = alias_strided(x, x.sizes(), x.strides(), x.bytes());
  out->dtype = signed_twin(x.dtype());
  return out;
}

// Writes x with the highest bit flipped to `to`; both are signed and may be the same tensor.
void flip_highest(const Tensor& to, const Tensor& x) {
  const DType t = x.dtype();
  const auto highest = static_cast<int64_t>(~uint64_t{0} << (8 * dtype_size(t) - 1));
  const Tensor bit = wrapped_number(Scalar(highest), t);
  const Tensor* inputs[2] = {&x, &bit};
  run_elementwise(kernels::binary_loop(kernels::BinaryOp::bitwise_xor, t), to, inputs, nullptr);
}

// How a row is computed for an unsigned dtype.
struct Way {
  DType inner;  // the dtype that its loop runs on
  bool ordered;
};
Way way_of(unsigned types, DType t, const char* name) {
  if (is_wide_unsigned(t)) {
    if ((types & kernels::types::ORDERED) != 0) return {signed_twin(t), true};
    if ((types & kernels::types::WIDENED) == kernels::types::WIDENED)
      return {t == DType::UInt16 ? DType::Int32 : DType::Int64, false};
  }
  detail::fail(ErrorKind::NotImplemented, name, "(): not implemented for dtype ", dtype_name(t));
}

Tensor as_dtype(const TensorOrScalar& v, DType t) {
  return v.is_tensor() ? raw_cast(v.tensor(), t) : raw_full({}, t, v.scalar());
}

// Returns the result of `fn` over inputs of dtype `t`, for which it has no loop.
Tensor run_signed(CtxBase& ctx, LoopFn fn, Way way, std::span<const Tensor> in, DType t, Rule rule,
                  const char* name, const void* params, int cost) {
  Dims shape(in[0].sizes());
  const Tensor* given[3];
  const Tensor* inner[3];
  Tensor held[3];
  for (size_t i = 0; i < in.size(); ++i) {
    Dims wider;
    if (!broadcast_shapes(shape, in[i].sizes(), wider)) fail_broadcast(name, shape, in[i].sizes());
    shape = wider;
    given[i] = &in[i];
    held[i] = way.ordered ? in_signed_order(in[i]) : raw_cast(in[i], way.inner);
    inner[i] = &held[i];
  }
  Tensor out = ctx.out(shape, rule == Rule::Bool ? DType::Bool : t, {given, in.size()});
  if (rule == Rule::Bool) {
    run_elementwise(fn, out, {inner, in.size()}, params, cost);
    return out;
  }
  const Tensor made = empty(shape, way.inner);
  run_elementwise(fn, made, {inner, in.size()}, params, cost);
  if (way.ordered)
    flip_highest(twin_of(out), made);
  else
    raw_copy(out, made);
  return out;
}

}  // namespace

int64_t unsigned_bits(const Scalar& s) noexcept {
  const double v = s.to_double();
  if (!s.is_float() || s.is_large() || !(v >= 0x1p63)) return s.to_int();
  return static_cast<int64_t>(v < 0x1p64 ? static_cast<uint64_t>(v) : 0);
}

Tensor in_signed_order(const Tensor& x) {
  if (!is_wide_unsigned(x.dtype())) return x;
  Tensor out = empty_preserving(x, signed_twin(x.dtype()));
  flip_highest(out, twin_of(x));
  return out;
}

Tensor unsigned_unary(CtxBase& ctx, kernels::UnaryOp op, const Tensor& x, DType t, Rule rule,
                      const char* name, const void* params) {
  const Way way = way_of(kernels::unary_types(op), t, name);
  const Tensor in[1] = {raw_cast(x, t)};
  return run_signed(ctx, kernels::unary_loop(op, way.inner), way, in, t, rule, name, params,
                    kernels::unary_cost(op));
}

Tensor unsigned_binary(CtxBase& ctx, kernels::BinaryOp op, const TensorOrScalar& a,
                       const TensorOrScalar& b, DType t, Rule rule, const char* name,
                       const void* params) {
  const Way way = way_of(kernels::binary_types(op), t, name);
  const Tensor in[2] = {as_dtype(a, t), as_dtype(b, t)};
  return run_signed(ctx, kernels::binary_loop(op, way.inner), way, in, t, rule, name, params,
                    kernels::binary_cost(op));
}

Tensor unsigned_ternary(CtxBase& ctx, kernels::TernaryOp op, const Tensor& a,
                        const TensorOrScalar& b, const TensorOrScalar& c, DType t, const char* name,
                        const void* params) {
  const Way way = way_of(kernels::ternary_types(op), t, name);
  const Tensor in[3] = {raw_cast(a, t), as_dtype(b, t), as_dtype(c, t)};
  return run_signed(ctx, kernels::ternary_loop(op, way.inner), way, in, t, Rule::Same, name, params,
                    kernels::ternary_cost(op));
}

namespace {

// The two halves of an ordered op. They are ops so that transforms handle them.
struct SignedOrder {
  static constexpr OpSpec spec{"_signed_order", "input", kInternal | kNondiff | kElementwise,
                               "Maps unsigned integers to signed ones in the same order.",
                               "none: ops that compare"};
  static constexpr DTypeSet kDTypes = kUnsignedTypes;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<SignedOrder>&, const Tensor& x) { return in_signed_order(x); }
};

struct UnsignedOrder {
  static constexpr OpSpec spec{"_unsigned_order", "input, dtype",
                               kInternal | kNondiff | kElementwise, "Inverts _signed_order.",
                               "none: ops that compare"};
  static constexpr DTypeSet kDTypes = kUnsignedTypes | kIntegerTypes;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<UnsignedOrder>&, const Tensor& x, DType t) {
    Tensor out = empty_preserving(x, t);
    flip_highest(twin_of(out), x);
    return out;
  }
};

}  // namespace

namespace detail {

void call_ordered(const OpRecord& r, const Value* args, Result& out) {
  ChangedArguments own(r, args);
  DType t = DType::Bool;
  for (size_t i = 0; i < r.args.size(); ++i) {
    if (!args[i].has_tensor() || !is_wide_unsigned(args[i].tensor().dtype())) continue;
    t = args[i].tensor().dtype();
    own.set(i, apply<SignedOrder>(args[i].tensor()));
  }
  r.call(own.data(), out);
  const auto back = [&](Tensor& x, size_t i) {
    if ((r.facts.unsigned_rule.values >> i & 1) != 0 && x.defined()) x = apply<UnsignedOrder>(x, t);
  };
  back(out.tensor, 0);
  for (size_t i = 0; i < out.tensors.size(); ++i) back(out.tensors[i], i);
}

}  // namespace detail

}  // namespace cograd
