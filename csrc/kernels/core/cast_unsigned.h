// SPDX-License-Identifier: BSD-3-Clause
// Builds conversions of uint16, uint32 and uint64 from those of signed integers. It is a part of
// cast_isa.cpp, which is compiled once per instruction set.
#pragma once

namespace cograd::kernels {
namespace {

// Runs two conversions in a row, through a block of elements of `size` bytes.
__attribute__((noinline)) void cast_twice(LoopFn first, LoopFn second, int64_t size,
                                          char* const* ptrs, const int64_t* strides, int64_t n,
                                          const void* params) {
  constexpr int64_t kPart = 512;
  alignas(64) char block[kPart * 8];
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t m = n - i < kPart ? n - i : kPart;
    char* in[2] = {block, ptrs[1] + i * strides[1]};
    const int64_t in_steps[2] = {size, strides[1]};
    first(in, in_steps, m, params);
    char* out[2] = {ptrs[0] + i * strides[0], block};
    const int64_t out_steps[2] = {strides[0], size};
    second(out, out_steps, m, params);
  }
}

// Converts by way of int64: subtracts 2^63 from values of at least 2^63 and adds it to the result.
// Values above uint64's range become 0.
template <class From>
uint64_t to_uint64(From v) {
  constexpr From kHalf = From(9223372036854775808.0);
  const bool high = v >= kHalf && v < kHalf + kHalf;
  const uint64_t low =
      static_cast<uint64_t>(convert<int64_t, From, true, false>(high ? v - kHalf : v));
  return high ? low + (uint64_t{1} << 63) : v >= kHalf ? 0 : low;
}
template <class To, class From>
__attribute__((noinline)) void unsigned_kernel(char* const* ptrs, int64_t n, const void*) {
  auto* out = reinterpret_cast<To*>(ptrs[0]);
  const auto* in = reinterpret_cast<const From*>(ptrs[1]);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<From>)
      out[i] = to_uint64(in[i]);
    else
      out[i] = static_cast<To>(in[i]);
  }
}
template <class To, class From>
inline constexpr Layout kUnsignedLayout{2, 1, {sizeof(To), sizeof(From), 0, 0, 0}, {}};
template <class To, class From>
constexpr LoopFn kUnsignedCast = loop<unsigned_kernel<To, From>, kUnsignedLayout<To, From>>;

template <DType from, DType to>
constexpr LoopFn unsigned_cast();

template <DType from, DType middle, DType to>
void cast_by_way(char* const* ptrs, const int64_t* strides, int64_t n, const void* params) {
  cast_twice(unsigned_cast<from, middle>(), unsigned_cast<middle, to>(), dtype_size(middle), ptrs,
             strides, n, params);
}

// Returns the signed or floating dtype that holds all values of an unsigned one; float64 rounds
// those of uint64.
constexpr DType widened(DType t) {
  return t == DType::UInt16 ? DType::Int32 : t == DType::UInt32 ? DType::Int64 : DType::Float64;
}

template <DType from, DType to>
constexpr LoopFn from_unsigned() {
  constexpr DType kWide = widened(from);
  if constexpr (to == DType::Bool || (is_integral(to) && dtype_size(to) <= dtype_size(from)))
    return cast_of<signed_twin(from), signed_twin(to)>();
  else if constexpr (from == DType::UInt64 && to == DType::Float32)
    return kUnsignedCast<float, uint64_t>;
  else if constexpr (from == DType::UInt64 && to == DType::Float64)
    return kUnsignedCast<double, uint64_t>;
  else if constexpr (from == DType::UInt64)
    return cast_by_way < from, to == DType::Complex128 ? DType::Float64 : DType::Float32, to > ;
  else if constexpr (signed_twin(to) != kWide)
    return cast_by_way<from, kWide, to>;
  else if constexpr (from == DType::UInt16)
    return kUnsignedCast<int32_t, uint16_t>;
  else
    return kUnsignedCast<int64_t, uint32_t>;
}

template <DType from, DType to>
constexpr LoopFn to_unsigned() {
  if constexpr (!is_differentiable(from) || to == DType::UInt16)
    return cast_of<from, signed_twin(to)>();
  else if constexpr (to == DType::UInt32)
    return cast_by_way<from, DType::Int64, to>;
  else if constexpr (from == DType::Float32)
    return kUnsignedCast<uint64_t, float>;
  else if constexpr (from == DType::Float64)
    return kUnsignedCast<uint64_t, double>;
  else
    return cast_by_way < from, from == DType::Complex128 ? DType::Float64 : DType::Float32, to > ;
}

template <DType from, DType to>
constexpr LoopFn unsigned_cast() {
  if constexpr (is_wide_unsigned(from))
    return from_unsigned<from, to>();
  else if constexpr (is_wide_unsigned(to))
    return to_unsigned<from, to>();
  else
    return cast_of<from, to>();
}

}  // namespace
}  // namespace cograd::kernels
