// SPDX-License-Identifier: BSD-3-Clause
// Conversion and fill loops, compiled for one instruction set.
#include "kernels/core/isa.h"
#include "kernels/core/staging.h"

namespace cograd::kernels {
namespace {

// The type in which values of a dtype are computed, and how they are stored.
template <DType t>
struct Element {
  using T = element_of<wide_dtype(t)>;
  static constexpr Form kForm = t == DType::Float16    ? Form::half
                                : t == DType::BFloat16 ? Form::bfloat
                                                       : Form::plain;
  static constexpr bool kFloat = is_differentiable(t);
};

template <class T>
constexpr bool same_bool(T) {
  return false;
}
constexpr bool same_bool(bool) { return true; }

template <class T>
struct Bytes {
  using type = T;
};
template <>
struct Bytes<bool> {
  using type = uint8_t;
};

// Converts like cvttsd2si: out-of-range values and NaN become the smallest integer, cut to the
// width.
template <class To, class From, bool kFromFloat, bool kToFloat>
inline To convert(From v) {
  if constexpr (is_complex_type<From> && is_complex_type<To>) {
    return To(v);
  } else if constexpr (is_complex_type<To>) {
    return To(static_cast<typename To::value_type>(v));
  } else if constexpr (is_complex_type<From> && !std::is_same_v<To, bool>) {
    return convert<To, typename From::value_type, true, kToFloat>(v.re);
  } else if constexpr (same_bool(To{})) {
    return !(v == From(0));
  } else if constexpr (!kFromFloat || kToFloat) {
    return static_cast<To>(v);
  } else if constexpr (sizeof(To) == 8 || (sizeof(From) == 8 && To(-1) > To(0))) {
    constexpr From kLimit = From(9223372036854775808.0);
    return static_cast<To>(v >= -kLimit && v < kLimit ? static_cast<int64_t>(v) : INT64_MIN);
  } else {
    constexpr From kLimit = From(2147483648.0);
    return static_cast<To>(v > -kLimit - From(1) && v < kLimit ? static_cast<int32_t>(v)
                                                               : INT32_MIN);
  }
}

template <class To, class From, bool kFromFloat, bool kToFloat>
__attribute__((noinline)) void cast_kernel(char* const* ptrs, int64_t n, const void*) {
  auto* out = reinterpret_cast<To*>(ptrs[0]);
  // Load bytes, because loops over bytes vectorise and loops over bool do not.
  using Loaded = typename Bytes<From>::type;
  const auto* in = reinterpret_cast<const Loaded*>(ptrs[1]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    Loaded v = in[i];
    if constexpr (same_bool(From{})) v = v != 0;  // foreign memory may hold any byte
    out[i] = convert<To, Loaded, kFromFloat, kToFloat>(v);
  }
}

template <DType from, DType to>
constexpr Layout make_layout() {
  using From = Element<from>;
  using To = Element<to>;
  return {2,
          1,
          {dtype_size(to), dtype_size(from), 0, 0, 0},
          {To::kForm, From::kForm, Form::plain, Form::plain, Form::plain}};
}
template <DType from, DType to>
inline constexpr Layout kLayout = make_layout<from, to>();

template <class U>
void fill(char* out, int64_t stride, int64_t n, const void* value) {
  U u;
  memcpy(&u, value, sizeof(U));
  if (stride == sizeof(U)) {
    for (int64_t i = 0; i < n; ++i)
      memcpy(out + i * static_cast<int64_t>(sizeof(U)), &u, sizeof(U));
  } else {
    for (int64_t i = 0; i < n; ++i) memcpy(out + i * stride, &u, sizeof(U));
  }
}
template <class U>
void fill_elements(char* const* ptrs, const int64_t* strides, int64_t n, const void* params) {
  fill<U>(ptrs[0], strides[0], n, params);
}
template <class U>
void copy_elements(char* const* ptrs, const int64_t* strides, int64_t n, const void*) {
  if (strides[1] == 0) return fill<U>(ptrs[0], strides[0], n, ptrs[1]);
  move_elements(ptrs[0], strides[0], ptrs[1], strides[1], n, sizeof(U));
}

template <DType t>
constexpr LoopFn copy_of_size() {
  constexpr int kSize = dtype_size(t);
  if constexpr (kSize == 1) return copy_elements<uint8_t>;
  if constexpr (kSize == 2) return copy_elements<uint16_t>;
  if constexpr (kSize == 4) return copy_elements<uint32_t>;
  if constexpr (kSize == 16) return copy_elements<Complex<double>>;
  return copy_elements<uint64_t>;
}
template <DType t>
constexpr LoopFn fill_of_size() {
  constexpr int kSize = dtype_size(t);
  if constexpr (kSize == 1) return fill_elements<uint8_t>;
  if constexpr (kSize == 2) return fill_elements<uint16_t>;
  if constexpr (kSize == 4) return fill_elements<uint32_t>;
  if constexpr (kSize == 16) return fill_elements<Complex<double>>;
  return fill_elements<uint64_t>;
}

// Converts float32 to or from a 16-bit type; contiguous elements need no block in between.
template <DType from, DType to>
void cast_half(char* const* ptrs, const int64_t* strides, int64_t n, const void* params) {
  using From = Element<from>;
  using To = Element<to>;
  if (strides[0] != dtype_size(to) || strides[1] != dtype_size(from)) {
    loop<cast_kernel<float, float, true, true>, kLayout<from, to>>(ptrs, strides, n, params);
  } else if constexpr (From::kForm == Form::plain) {
    narrow(reinterpret_cast<uint16_t*>(ptrs[0]), reinterpret_cast<const float*>(ptrs[1]), n,
           To::kForm);
  } else {
    widen(reinterpret_cast<float*>(ptrs[0]), reinterpret_cast<const uint16_t*>(ptrs[1]), n,
          From::kForm);
  }
}

template <DType from, DType to>
constexpr bool kCastHalf = (from == DType::Float32 && Element<to>::kForm != Form::plain) ||
                           (to == DType::Float32 && Element<from>::kForm != Form::plain);

template <DType from, DType to>
constexpr LoopFn cast_of() {
  using From = Element<from>;
  using To = Element<to>;
  if constexpr (from == to) {
    return copy_of_size<from>();
  } else if constexpr (kCastHalf<from, to>) {
    return cast_half<from, to>;
  } else {
    return loop<cast_kernel<typename To::T, typename From::T, From::kFloat, To::kFloat>,
                kLayout<from, to>>;
  }
}

}  // namespace
}  // namespace cograd::kernels

#include "kernels/core/cast_unsigned.h"

namespace cograd::kernels {
namespace {

struct Tables {
  LoopFn cast[kNumDTypes][kNumDTypes];
  LoopFn fill[1][kNumDTypes];
};
template <DType from>
constexpr void fill_row(Tables& t) {
  LoopFn* row = t.cast[static_cast<int>(from)];
#define COGRAD_DTYPE_ROW(name, ...) *row++ = unsigned_cast<from, DType::name>();
#include "cograd/dtypes.def"
  t.fill[0][static_cast<int>(from)] = fill_of_size<from>();
}
constexpr Tables make_tables() {
  Tables t{};
#define COGRAD_DTYPE_ROW(name, ...) fill_row<DType::name>(t);
#include "cograd/dtypes.def"
  return t;
}
constexpr Tables kTables = make_tables();

}  // namespace

}  // namespace cograd::kernels

namespace cograd::kernels::COGRAD_ISA {

LoopTable cast_table();
LoopTable fill_table();

LoopTable cast_table() { return kTables.cast; }
LoopTable fill_table() { return kTables.fill; }

}  // namespace cograd::kernels::COGRAD_ISA
