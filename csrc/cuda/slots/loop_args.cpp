// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/slots/loop_args.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/elementwise/tables.h"
#include "tensor/slot.h"

namespace cograd::cuda {

namespace {

using device::FlatArgs;
using device::LoopOperands;
using device::LoopValue;
using device::StridedArgs;
using kernels::ElementParams;

template <class T>
void put(LoopValue& to, T v) noexcept {
  static_assert(sizeof(T) <= sizeof to.bytes);
  std::memcpy(to.bytes, &v, sizeof v);
}

// Rows whose kernels only move bits.
bool moves_bits(const LoopRow& row) noexcept {
  return row.kind == LoopKind::Copy || row.kind == LoopKind::Fill || row.name == "nextafter";
}

// Reads a number from the host in the type that the row computes in.
void read_operand(LoopValue& to, const LoopRow& row, int k, const void* from) noexcept {
  const DType t = k == 1 ? row.first : row.type;
  std::memcpy(to.bytes, from, static_cast<size_t>(dtype_size(t)));
  if (moves_bits(row)) return;
  if (t == DType::Float16) {
    Half h;
    std::memcpy(&h, from, sizeof h);
    put(to, static_cast<float>(h));
  } else if (t == DType::BFloat16) {
    BFloat16 h;
    std::memcpy(&h, from, sizeof h);
    put(to, static_cast<float>(h));
  } else if (t == DType::Bool) {
    to.bytes[0] = to.bytes[0] != 0;
  }
}

void read_param(LoopValue& to, const LoopRow& row, const ElementParams& p, int k) noexcept {
  if (row.name.starts_with("pow_far")) return put(to, p.d[k]);
  dispatch_values(wide_dtype(row.type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (is_complex_type<T>)
      put(to, T(Complex<double>(p.d[k], p.imag[k])));
    else if constexpr (std::is_floating_point_v<T>)
      put(to, static_cast<T>(p.d[k]));
    else if constexpr (std::is_integral_v<T>)
      put(to, static_cast<T>(p.i[k]));
  });
}

void fill_operands(LoopOperands& ops, const LoopRow& row, const Nest& nest, unsigned host,
                   const void* params, unsigned* error) noexcept {
  ops = {};
  ops.error = error;
  for (int k = 0; k < nest.nops; ++k) {
    ops.data[k] = nest.data[k];
    if ((host >> k & 1) != 0) {
      ops.on_host |= 1u << k;
      read_operand(ops.value[k], row, k, nest.data[k]);
    } else if (nest.single(k) && nest.total != 1) {
      ops.single |= 1u << k;
    }
  }
  if (params == nullptr) return;
  if (row.kind == LoopKind::Fill) {
    std::memcpy(ops.param[0].bytes, params, static_cast<size_t>(dtype_size(row.type)));
  } else if (row.kind == LoopKind::Row || row.kind == LoopKind::Power) {
    const auto& p = *static_cast<const ElementParams*>(params);
    for (int k = 0; k < 3; ++k) read_param(ops.param[k], row, p, k);
    if (p.number_at != 0 && is_half(row.type) && !moves_bits(row)) {
      ops.on_host |= 1u << p.number_at;
      put(ops.value[p.number_at], p.number);
    }
  }
}

// Elements that a thread of the flat kernel reads at once: loops.h has the same.
int pack_size(const LoopRow& row) noexcept {
  int widest = std::max(operand_size(row, 0), operand_size(row, 1));
  if (row.inputs.size() > 1) widest = std::max(widest, operand_size(row, 2));
  return std::min(8, 16 / widest);
}

bool is_flat(const LoopRow& row, const Nest& nest, const LoopOperands& ops) noexcept {
  const int pack = pack_size(row);
  for (int k = 0; k < nest.nops; ++k) {
    const int size = operand_size(row, k);
    if (k > 0 && ((ops.on_host | ops.single) >> k & 1) != 0) continue;
    if (!nest.contiguous(k, size)) return false;
    if (reinterpret_cast<uintptr_t>(nest.data[k]) % static_cast<uintptr_t>(pack * size) != 0)
      return false;
  }
  return true;
}

unsigned blocks_of(int64_t n, int64_t per_thread) {
  const int64_t per_block = per_thread * kLoopThreads;
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

void strided_launches(const LoopOperands& ops, const Nest& nest, int ndim,
                      const std::function<void(const LoopLaunch&)>& launch) {
  if (ndim > device::kLoopDims) {
    LoopOperands part = ops;
    for (int64_t i = 0; i < nest.shape[ndim - 1]; ++i) {
      strided_launches(part, nest, ndim - 1, launch);
      for (int k = 0; k < nest.nops; ++k)
        part.data[k] = static_cast<char*>(part.data[k]) + nest.strides[ndim - 1][k];
    }
    return;
  }
  StridedArgs a;
  a.ops = ops;
  a.ndim = std::max(1, ndim);
  a.n = 1;
  a.dims[0] = {1, 1, 0, {}};
  for (int d = 0; d < ndim; ++d) {
    set_dim(a.dims[d], nest.shape[d]);
    a.n *= nest.shape[d];
    for (int k = 0; k < device::kLoopOperands; ++k)
      a.dims[d].strides[k] = k < nest.nops ? nest.strides[d][k] : 0;
  }
  constexpr int64_t kElements = 4;
  const bool large = a.n >= int64_t{1} << 31;
  launch({large ? Driver::Large : Driver::Strided, blocks_of(a.n, kElements), &a});
}

// GPUs fault at elements that are not aligned.
void check_aligned(const LoopRow& row, const Nest& nest, unsigned host) {
  for (int k = 0; k < nest.nops; ++k) {
    if ((host >> k & 1) != 0) continue;
    const int64_t size = operand_size(row, k);
    auto bits = static_cast<int64_t>(reinterpret_cast<uintptr_t>(nest.data[k]));
    for (int d = 0; d < nest.ndim; ++d) bits |= nest.strides[d][k];
    if ((bits & (size - 1)) != 0) cograd::detail::fail_no_kernel("elements that are not aligned");
  }
}

}  // namespace

int operand_size(const LoopRow& row, int k) noexcept {
  return dtype_size(k == 0 ? row.out : k == 1 ? row.first : row.type);
}

int chosen_row(int row, const void* params) noexcept {
  const LoopRow& r = loop_rows()[static_cast<size_t>(row)];
  if (r.kind != LoopKind::Power || params == nullptr) return row;
  using kernels::UnaryOp;
  const double e = static_cast<const ElementParams*>(params)->d[0];
  const bool gradient = r.inputs.size() > 1;
  if (r.type == DType::Float32 && std::fabs(e) > 0x1p24 && std::isfinite(e))
    return far_power(gradient);
  int found = -1;
  const auto take = [&](UnaryOp op) {
    found = find_loop(gradient ? kernels::unary_backward_loop(op, r.type)
                               : kernels::ElementRow(op).loop(r.type));
  };
  if (e == 2) take(UnaryOp::square);
  if (e == 3) take(UnaryOp::cube);
  if (!gradient) {
    if (e == 1) take(UnaryOp::positive);
    if (is_differentiable(r.type)) {
      if (e == 0.5) take(UnaryOp::sqrt);
      if (e == -0.5) take(UnaryOp::rsqrt);
      if (e == -1) take(UnaryOp::reciprocal);
    }
  }
  return found < 0 ? row : found;
}

bool is_zero_on_host(const LoopRow& row, const Nest& nest, int k) noexcept {
  constexpr char kZero[16] = {};
  return std::memcmp(nest.data[k], kZero, static_cast<size_t>(operand_size(row, k))) == 0;
}

void each_launch(const LoopRow& row, const Nest& nest, unsigned host, const void* params,
                 unsigned* error, const std::function<void(const LoopLaunch&)>& launch) {
  if (nest.total == 0) return;
  for (int k = 0; k < nest.nops; ++k)
    if ((host >> k & 1) != 0 && (k == 0 || !nest.single(k)))
      cograd::detail::fail_no_kernel("a loop over memory of the host");
  check_aligned(row, nest, host);
  FlatArgs flat;
  fill_operands(flat.ops, row, nest, host, params, error);
  if (is_flat(row, nest, flat.ops)) {
    constexpr int64_t kPacks = 2;
    flat.n = nest.total;
    return launch({Driver::Flat, blocks_of(flat.n, kPacks * pack_size(row)), &flat});
  }
  strided_launches(flat.ops, nest, nest.ndim, launch);
}

}  // namespace cograd::cuda
