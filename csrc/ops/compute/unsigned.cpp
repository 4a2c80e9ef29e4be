// SPDX-License-Identifier: BSD-3-Clause
// Computes unsigned integers on signed ones of the same order, or wide enough for their values.
#include "ops/compute/unsigned.h"

#include <cmath>
#include <cstring>

#include "ops/declare/ops.h"

namespace cograd {

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
  const kernels::ElementRow exclusive_or(kernels::BinaryOp::bitwise_xor);
  run_elementwise(exclusive_or.loop(t), to, inputs, nullptr);
}

}  // namespace

RowWay way_of(kernels::ElementRow row, DType t, const char* name) {
  if (kernels::LoopFn fn = row.loop(t)) [[likely]]
    return {fn, t, false};
  if (is_wide_unsigned(t)) {
    if ((row.types() & kernels::types::ORDERED) != 0)
      return {row.loop(signed_twin(t)), signed_twin(t), true};
    if ((row.types() & kernels::types::WIDENED) == kernels::types::WIDENED) {
      const DType wider = t == DType::UInt16 ? DType::Int32 : DType::Int64;
      return {row.loop(wider), wider, false};
    }
  }
  detail::fail(ErrorKind::NotImplemented, name, "(): not implemented for dtype ", dtype_name(t));
}

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

void from_signed_order(const Tensor& out, const Tensor& x) { flip_highest(twin_of(out), x); }

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
    from_signed_order(out, x);
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
    if ((r.traits.unsigned_rule.values >> i & 1) != 0 && x.defined())
      x = apply<UnsignedOrder>(x, t);
  };
  back(out.tensor, 0);
  for (size_t i = 0; i < out.tensors.size(); ++i) back(out.tensors[i], i);
}

}  // namespace detail

}  // namespace cograd
