// SPDX-License-Identifier: BSD-3-Clause
// Element types, their storage structs (Half, BFloat16), and dispatch over them.
#pragma once
#include <stdint.h>

#include "cograd/complex.h"

namespace cograd {

enum class DType : uint8_t {
#define COGRAD_DTYPE_ROW(name, ...) name,
#include "cograd/dtypes.def"
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

template <class T>
struct DTypeOf;
namespace detail {
template <DType t>
struct ElementOf;
// The type of real and imaginary parts; `T` itself for other types.
template <class T>
struct PartOf {
  using type = T;
};
template <class T>
struct PartOf<Complex<T>> {
  using type = T;
};
}  // namespace detail
#define COGRAD_DTYPE_ROW(name, element, ...)    \
  template <>                                   \
  struct DTypeOf<element> {                     \
    static constexpr DType value = DType::name; \
  };                                            \
  template <>                                   \
  struct detail::ElementOf<DType::name> {       \
    using type = element;                       \
  };
#include "cograd/dtypes.def"
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;
// The C++ type of an element.
template <DType t>
using element_of = typename detail::ElementOf<t>::type;

enum class DTypeCategory : uint8_t { Bool, Integer, Floating, Complex };

// The properties of a dtype: a row of the table.
struct DTypeInfo {
  const char* name;
  const char* alias;
  const char* c_name;
  uint8_t size;  // bytes
  DTypeCategory category;
  bool is_signed;
  DType wide, twin, part;  // of the arithmetic, of the loops, of real and imaginary parts
  const char* format;      // of the buffer protocol; empty: it has none
};
inline constexpr DTypeInfo kDTypes[] = {
#define COGRAD_DTYPE_ROW(name, element, attribute, alias, c_name, kind, wide, twin, format) \
  {attribute,                                                                               \
   alias,                                                                                   \
   c_name,                                                                                  \
   sizeof(element),                                                                         \
   DTypeCategory::kind,                                                                     \
   !std::is_unsigned_v<element>,                                                            \
   DType::wide,                                                                             \
   DType::twin,                                                                             \
   dtype_of<detail::PartOf<element>::type>,                                                 \
   format},
#include "cograd/dtypes.def"
};
inline constexpr int kNumDTypes = sizeof(kDTypes) / sizeof(kDTypes[0]);

constexpr const DTypeInfo& dtype_info(DType t) noexcept { return kDTypes[static_cast<int>(t)]; }
constexpr const char* dtype_name(DType t) noexcept { return dtype_info(t).name; }
constexpr const char* scalar_type_name(DType t) noexcept { return dtype_info(t).alias; }

// A set of dtypes: bit i is that of the dtype with the number i.
using DTypeMask = uint32_t;
constexpr DTypeMask dtype_bit(DType t) noexcept { return DTypeMask{1} << static_cast<int>(t); }
constexpr bool is_in(DTypeMask set, DType t) noexcept {
  return (set >> static_cast<int>(t) & 1) != 0;
}

namespace detail {
// Small tables and masks made from the rows, so that queries in every op take one load or shift.
struct DTypeSizes {
  uint8_t of[kNumDTypes] = {};
  constexpr DTypeSizes() noexcept {
    for (int i = 0; i < kNumDTypes; ++i) of[i] = kDTypes[i].size;
  }
};
inline constexpr DTypeSizes kDTypeSizes;
template <class F>
constexpr DTypeMask dtypes_where(F f) noexcept {
  DTypeMask mask = 0;
  for (int i = 0; i < kNumDTypes; ++i)
    if (f(kDTypes[i], static_cast<DType>(i))) mask |= DTypeMask{1} << i;
  return mask;
}
constexpr DTypeMask category_mask(DTypeCategory c) noexcept {
  return dtypes_where([c](const DTypeInfo& row, DType) { return row.category == c; });
}
}  // namespace detail

inline constexpr DTypeMask kComplexDTypes = detail::category_mask(DTypeCategory::Complex);
inline constexpr DTypeMask kFloatingDTypes = detail::category_mask(DTypeCategory::Floating);
inline constexpr DTypeMask kIntegralDTypes = detail::category_mask(DTypeCategory::Integer);
// The 16-bit floats, whose arithmetic is done in another dtype.
inline constexpr DTypeMask kHalfDTypes =
    detail::dtypes_where([](const DTypeInfo& row, DType t) { return row.wide != t; });
inline constexpr DTypeMask kWideUnsignedDTypes =
    detail::dtypes_where([](const DTypeInfo& row, DType t) { return row.twin != t; });

constexpr int dtype_size(DType t) noexcept { return detail::kDTypeSizes.of[static_cast<int>(t)]; }
constexpr bool is_floating(DType t) noexcept { return is_in(kFloatingDTypes, t); }
constexpr bool is_half(DType t) noexcept { return is_in(kHalfDTypes, t); }
// Returns the dtype in which 16-bit floats are computed; `t` itself for other dtypes.
constexpr DType wide_dtype(DType t) noexcept { return dtype_info(t).wide; }
constexpr bool is_integral(DType t) noexcept { return is_in(kIntegralDTypes, t); }
constexpr bool is_signed(DType t) noexcept { return dtype_info(t).is_signed; }
constexpr bool is_complex(DType t) noexcept { return is_in(kComplexDTypes, t); }
// True for uint16, uint32 and uint64. Most kernels treat these as the signed dtype of the same
// size: in two's complement, sums, products, bit operations and copies are the same.
constexpr bool is_wide_unsigned(DType t) noexcept { return is_in(kWideUnsignedDTypes, t); }
constexpr DType signed_twin(DType t) noexcept { return dtype_info(t).twin; }
// True if tensors of the dtype can require grad.
constexpr bool is_differentiable(DType t) noexcept {
  return is_in(kFloatingDTypes | kComplexDTypes, t);
}
constexpr bool is_real(DType t) noexcept { return !is_complex(t); }
// Returns the dtype of real and imaginary parts of a complex dtype; `t` itself for other dtypes.
constexpr DType real_dtype(DType t) noexcept { return dtype_info(t).part; }
// Returns the complex dtype whose parts have a floating dtype; 16-bit parts become 32-bit ones.
constexpr DType complex_dtype(DType t) noexcept {
  return t == DType::Float64 || t == DType::Complex128 ? DType::Complex128 : DType::Complex64;
}

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the exact C++ type of `t`, to read or write single values.
template <class F>
decltype(auto) dispatch_values(DType t, F&& f) {
  switch (t) {
#define COGRAD_DTYPE_ROW(name, ...)              \
  case DType::name:                              \
    if constexpr (DType::name == DType::Float64) \
      break;                                     \
    else                                         \
      return f(TypeTag<element_of<DType::name>>{});
#include "cograd/dtypes.def"
  }
  return f(TypeTag<double>{});
}
// Like dispatch_values, but uint16, uint32 and uint64 use the type of their signed twin.
template <class F>
decltype(auto) dispatch_all(DType t, F&& f) {
  switch (signed_twin(t)) {
#define COGRAD_DTYPE_ROW(name, ...)                                               \
  case DType::name:                                                               \
    if constexpr (DType::name == DType::Float64 || is_wide_unsigned(DType::name)) \
      break;                                                                      \
    else                                                                          \
      return f(TypeTag<element_of<DType::name>>{});
#include "cograd/dtypes.def"
  }
  return f(TypeTag<double>{});
}
// Like dispatch_all; `t` must not be complex.
template <class F>
decltype(auto) dispatch_real(DType t, F&& f) {
  switch (signed_twin(t)) {
#define COGRAD_DTYPE_ROW(name, ...)                                                 \
  case DType::name:                                                                 \
    if constexpr (DType::name == DType::Float64 || is_wide_unsigned(DType::name) || \
                  is_complex(DType::name))                                          \
      break;                                                                        \
    else                                                                            \
      return f(TypeTag<element_of<DType::name>>{});
#include "cograd/dtypes.def"
  }
  return f(TypeTag<double>{});
}

}  // namespace cograd
