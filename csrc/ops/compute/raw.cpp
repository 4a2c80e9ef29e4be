// SPDX-License-Identifier: BSD-3-Clause
// Copies, casts, fills and numbers, and how a loop runs over tensors.
#include "ops/compute/raw.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "ops/compute/elementwise.h"
#include "ops/compute/strides.h"
#include "ops/compute/unsigned.h"
#include "ops/declare/ops.h"
#include "tensor/sparse.h"
#include "transforms/batch.h"

namespace cograd {

using kernels::LoopFn;

namespace {

// Sets `out` to the strides, in bytes, that broadcast `t` to `sizes`.
void put_byte_strides(const Tensor& t, IntList sizes, int64_t* out) {
  const size_t lead = sizes.size() - static_cast<size_t>(t.dim());
  const int64_t itemsize = t.itemsize();
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool repeated = i < lead || (t->sizes_[i - lead] == 1 && sizes[i] != 1);
    out[i] = repeated ? 0 : scaled_stride(t->strides_[i - lead], itemsize);
  }
}

// Converts with a single rounding: a detour through double could round large integers twice.
float as_float(const Scalar& s) {
  if (s.is_large()) return static_cast<float>(static_cast<uint64_t>(s.to_int()));
  if (s.is_float() || s.is_complex()) return static_cast<float>(s.to_double());
  return static_cast<float>(s.to_int());
}

// True if element i of each tensor is at the same place, counted from the first one, or if a tensor
// has one element for all.
bool in_one_order(const Tensor& out, std::span<const Tensor* const> inputs) {
  const int64_t n = out.numel();
  return out.is_contiguous() && std::all_of(inputs.begin(), inputs.end(), [n](const Tensor* t) {
           const int64_t m = (*t).numel();
           return m == 1 || (m == n && (*t).is_contiguous());
         });
}

void run_in_one_order(LoopFn fn, const Tensor& out, std::span<const Tensor* const> inputs,
                      const void* params) {
  char* ptrs[kernels::kMaxOperands] = {out.bytes()};
  int64_t steps[kernels::kMaxOperands] = {out.itemsize()};
  for (size_t i = 0; i < inputs.size(); ++i) {
    ptrs[i + 1] = inputs[i]->bytes();
    steps[i + 1] = inputs[i]->numel() == 1 ? 0 : inputs[i]->itemsize();
  }
  kernels::run_row(fn, ptrs, steps, out.numel(), params);
}

}  // namespace

Dims byte_strides(IntList strides, int64_t itemsize) {
  Dims out(strides);
  for (int64_t& s : out) s = scaled_stride(s, itemsize);
  return out;
}

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
  if (out.numel() <= kDirectMax / cost && in_one_order(out, inputs))
    return run_in_one_order(fn, out, inputs, params);
  int64_t strides[kernels::kMaxOperands][kernels::kMaxDims];
  kernels::Operand operands[kernels::kMaxOperands];
  for (size_t i = 0; i <= inputs.size(); ++i) {
    const Tensor& t = i == 0 ? out : *inputs[i - 1];
    put_byte_strides(t, out.sizes(), strides[i]);
    operands[i] = {t.bytes(), strides[i]};
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

}  // namespace cograd
