// SPDX-License-Identifier: BSD-3-Clause
// Element types, their storage structs (Half, BFloat16), and dispatch over them.
#pragma once
#include <stdint.h>

#include "cograd/complex.h"

namespace cograd {

enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Complex64,
  Complex128,
  UInt16,
  UInt32,
  UInt64,
  // torch's other names.
  Byte = UInt8,
  Char = Int8,
  Short = Int16,
  Int = Int32,
  Long = Int64,
  Half = Float16,
  Float = Float32,
  Double = Float64,
  ComplexFloat = Complex64,
  ComplexDouble = Complex128,
};

namespace detail {
inline float float_of(uint32_t bits) noexcept { return __builtin_bit_cast(float, bits); }
inline uint32_t bits_of(float f) noexcept { return __builtin_bit_cast(uint32_t, f); }
}  // namespace detail

// IEEE binary16 storage; arithmetic is done in float.
struct Half {
  uint16_t bits;
  Half() = default;
  Half(float f) noexcept : bits(from_float(f)) {}  // NOLINT: implicit by intent
  operator float() const noexcept { return to_float(bits); }

  static float to_float(uint16_t h) noexcept {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const uint32_t two_w = static_cast<uint32_t>(h & 0x7FFFu) << 13;
    // Scaling by 2^112 rebases the exponent and normalises subnormals in one multiplication.
    float f = detail::float_of(two_w) * detail::float_of(0x77800000u);
    uint32_t u = detail::bits_of(f);
    if ((h & 0x7C00u) == 0x7C00u) u = 0x7F800000u | (two_w & 0x007FFFFFu);
    return detail::float_of(u | sign);
  }
  static uint16_t from_float(float f) noexcept {
    uint32_t u = detail::bits_of(f);
    const auto sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
    u &= 0x7FFFFFFFu;
    if (u > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | ((u >> 13) & 0x3FFu));
    if (u >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
    if (u < 0x38800000u) {
      // Adding 0.5 aligns the mantissa of a subnormal half with round-to-nearest-even.
      const float r = detail::float_of(u) + 0.5f;
      return static_cast<uint16_t>(sign | (detail::bits_of(r) - 0x3F000000u));
    }
    u += 0xC8000FFFu + ((u >> 13) & 1u);
    return static_cast<uint16_t>(sign | (u >> 13));
  }
};

// The upper 16 bits of a float; arithmetic is done in float.
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  BFloat16(float f) noexcept : bits(from_float(f)) {}  // NOLINT: implicit by intent
  operator float() const noexcept { return detail::float_of(static_cast<uint32_t>(bits) << 16); }
  static uint16_t from_float(float f) noexcept {
    const uint32_t u = detail::bits_of(f);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0u;
    return static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
  }
};

enum class DTypeCategory : uint8_t { Bool, Integer, Floating, Complex };

// The properties of a dtype. This is the only table of names.
struct DTypeInfo {
  const char* name;    // "float32": the attribute of the package
  const char* alias;   // "Float": used in error messages and in FloatTensor
  const char* c_name;  // "float": torch's spelling in error messages of matrix products
  uint8_t size;        // bytes
  DTypeCategory category;
  bool is_signed;
};
inline constexpr DTypeInfo kDTypes[] = {
    {"bool", "Bool", "bool", 1, DTypeCategory::Bool, false},
    {"uint8", "Byte", "unsigned char", 1, DTypeCategory::Integer, false},
    {"int8", "Char", "signed char", 1, DTypeCategory::Integer, true},
    {"int16", "Short", "short", 2, DTypeCategory::Integer, true},
    {"int32", "Int", "int", 4, DTypeCategory::Integer, true},
    {"int64", "Long", "int64_t", 8, DTypeCategory::Integer, true},
    {"float16", "Half", "c10::Half", 2, DTypeCategory::Floating, true},
    {"bfloat16", "BFloat16", "c10::BFloat16", 2, DTypeCategory::Floating, true},
    {"float32", "Float", "float", 4, DTypeCategory::Floating, true},
    {"float64", "Double", "double", 8, DTypeCategory::Floating, true},
    {"complex64", "ComplexFloat", "c10::complex<float>", 8, DTypeCategory::Complex, true},
    {"complex128", "ComplexDouble", "c10::complex<double>", 16, DTypeCategory::Complex, true},
    {"uint16", "UInt16", "unsigned short", 2, DTypeCategory::Integer, false},
    {"uint32", "UInt32", "unsigned int", 4, DTypeCategory::Integer, false},
    {"uint64", "UInt64", "unsigned long", 8, DTypeCategory::Integer, false},
};
inline constexpr int kNumDTypes = sizeof(kDTypes) / sizeof(kDTypes[0]);

constexpr const DTypeInfo& dtype_info(DType t) noexcept { return kDTypes[static_cast<int>(t)]; }
constexpr const char* dtype_name(DType t) noexcept { return dtype_info(t).name; }
constexpr const char* scalar_type_name(DType t) noexcept { return dtype_info(t).alias; }

namespace detail {
// Small tables and masks made from the rows, so that queries in every op take one load or shift.
struct DTypeSizes {
  uint8_t of[kNumDTypes] = {};
  constexpr DTypeSizes() noexcept {
    for (int i = 0; i < kNumDTypes; ++i) of[i] = kDTypes[i].size;
  }
};
inline constexpr DTypeSizes kDTypeSizes;
constexpr uint32_t category_mask(DTypeCategory c) noexcept {
  uint32_t mask = 0;
  for (int i = 0; i < kNumDTypes; ++i)
    if (kDTypes[i].category == c) mask |= uint32_t{1} << i;
  return mask;
}
}  // namespace detail

constexpr int dtype_size(DType t) noexcept { return detail::kDTypeSizes.of[static_cast<int>(t)]; }
constexpr bool is_floating(DType t) noexcept {
  constexpr uint32_t kMask = detail::category_mask(DTypeCategory::Floating);
  return (kMask >> static_cast<int>(t) & 1) != 0;
}
constexpr bool is_half(DType t) noexcept { return t == DType::Float16 || t == DType::BFloat16; }
// Returns the dtype in which 16-bit floats are computed; `t` itself for other dtypes.
constexpr DType wide_dtype(DType t) noexcept { return is_half(t) ? DType::Float32 : t; }
constexpr bool is_integral(DType t) noexcept {
  constexpr uint32_t kMask = detail::category_mask(DTypeCategory::Integer);
  return (kMask >> static_cast<int>(t) & 1) != 0;
}
constexpr bool is_signed(DType t) noexcept { return dtype_info(t).is_signed; }
constexpr bool is_complex(DType t) noexcept {
  return static_cast<unsigned>(t) - static_cast<unsigned>(DType::Complex64) <= 1;
}
// True for uint16, uint32 and uint64. Most kernels treat these as the signed dtype of the same
// size: in two's complement, sums, products, bit operations and copies are the same.
constexpr bool is_wide_unsigned(DType t) noexcept { return t >= DType::UInt16; }
constexpr DType signed_twin(DType t) noexcept {
  return t == DType::UInt16   ? DType::Int16
         : t == DType::UInt32 ? DType::Int32
         : t == DType::UInt64 ? DType::Int64
                              : t;
}
// True if tensors of the dtype can require grad.
constexpr bool is_differentiable(DType t) noexcept { return is_floating(t) || is_complex(t); }
constexpr bool is_real(DType t) noexcept { return !is_complex(t); }
// Returns the dtype of real and imaginary parts of a complex dtype; `t` itself for other dtypes.
constexpr DType real_dtype(DType t) noexcept {
  return t == DType::Complex64 ? DType::Float32 : t == DType::Complex128 ? DType::Float64 : t;
}
// Returns the complex dtype whose parts have a floating dtype; 16-bit parts become 32-bit ones.
constexpr DType complex_dtype(DType t) noexcept {
  return t == DType::Float64 || t == DType::Complex128 ? DType::Complex128 : DType::Complex64;
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::Bool;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::UInt8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::Int8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::Int16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::Int32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::Int64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::Float16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::BFloat16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::Float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::Float64;
};
template <>
struct DTypeOf<Complex<float>> {
  static constexpr DType value = DType::Complex64;
};
template <>
struct DTypeOf<Complex<double>> {
  static constexpr DType value = DType::Complex128;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::UInt16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::UInt32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::UInt64;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the C++ type of `t`, which must not be complex; uint16, uint32 and
// uint64 use the type of their signed twin.
template <class F>
decltype(auto) dispatch_real(DType t, F&& f) {
  switch (t) {
    case DType::Bool:
      return f(TypeTag<bool>{});
    case DType::UInt8:
      return f(TypeTag<uint8_t>{});
    case DType::Int8:
      return f(TypeTag<int8_t>{});
    case DType::Int16:
    case DType::UInt16:
      return f(TypeTag<int16_t>{});
    case DType::Int32:
    case DType::UInt32:
      return f(TypeTag<int32_t>{});
    case DType::Int64:
    case DType::UInt64:
      return f(TypeTag<int64_t>{});
    case DType::Float16:
      return f(TypeTag<Half>{});
    case DType::BFloat16:
      return f(TypeTag<BFloat16>{});
    case DType::Float32:
      return f(TypeTag<float>{});
    default:
      return f(TypeTag<double>{});
  }
}
// Like dispatch_real, and covers complex dtypes too.
template <class F>
decltype(auto) dispatch_all(DType t, F&& f) {
  if (t == DType::Complex64) return f(TypeTag<Complex<float>>{});
  if (t == DType::Complex128) return f(TypeTag<Complex<double>>{});
  return dispatch_real(t, f);
}
// Like dispatch_all, but with the exact type of unsigned elements, to read or write single values.
template <class F>
decltype(auto) dispatch_values(DType t, F&& f) {
  if (t == DType::UInt16) return f(TypeTag<uint16_t>{});
  if (t == DType::UInt32) return f(TypeTag<uint32_t>{});
  if (t == DType::UInt64) return f(TypeTag<uint64_t>{});
  return dispatch_all(t, f);
}

}  // namespace cograd
