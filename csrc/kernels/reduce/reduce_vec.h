// SPDX-License-Identifier: BSD-3-Clause
// Vectors in GCC's vector extension, as wide as the instruction set's registers.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "cograd/dtype.h"
#include "kernels/core/vecmath512.h"

#define COGRAD_INLINE inline __attribute__((always_inline))

#ifndef COGRAD_ISA
#define COGRAD_ISA base
#endif

namespace cograd::kernels::COGRAD_ISA {

// The type for arithmetic: float for the 16-bit types, int64 for bool and integers.
template <class T>
struct AccOf {
  using type = int64_t;
};
template <>
struct AccOf<Half> {
  using type = float;
};
template <>
struct AccOf<BFloat16> {
  using type = float;
};
template <>
struct AccOf<float> {
  using type = float;
};
template <>
struct AccOf<double> {
  using type = double;
};
template <class T>
using Acc = typename AccOf<T>::type;

// The type that carries results between blocks.
template <class T>
using Wide = std::conditional_t<std::is_same_v<Acc<T>, int64_t>, int64_t, double>;

template <class T, int L>
struct VecOf {
  typedef T type __attribute__((vector_size(L * sizeof(T))));
};
template <class T, int L>
using Vec = typename VecOf<T, L>::type;

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif
template <class A>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(A));

// Loads L elements of storage type T and converts them to the accumulator type.
template <class T, int L = kLanes<Acc<T>>>
COGRAD_INLINE Vec<Acc<T>, L> load(const T* p) {
  using A = Acc<T>;
  if constexpr (std::is_same_v<T, A>) {
    Vec<A, L> v;
    std::memcpy(&v, p, sizeof v);
    return v;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    Vec<uint16_t, L> h;
    std::memcpy(&h, p, sizeof h);
    return reinterpret_cast<Vec<float, L>>(__builtin_convertvector(h, Vec<uint32_t, L>) << 16);
  } else if constexpr (std::is_same_v<T, Half>) {
#if defined(__AVX512F__)
    if constexpr (L == 16) {
      return reinterpret_cast<Vec<float, L>>(
          _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
    }
#elif defined(__F16C__)
    if constexpr (L == 8) {
      return reinterpret_cast<Vec<float, L>>(
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    }
#endif
    Vec<uint16_t, L> h16;
    std::memcpy(&h16, p, sizeof h16);
    const auto h = __builtin_convertvector(h16, Vec<uint32_t, L>);
    const Vec<uint32_t, L> mag = (h & 0x7FFFu) << 13;
    const Vec<float, L> scaled = reinterpret_cast<Vec<float, L>>(mag) * 0x1p112f;
    const Vec<uint32_t, L> finite = reinterpret_cast<Vec<uint32_t, L>>(scaled);
    const Vec<uint32_t, L> special = (mag & 0x007FFFFFu) | 0x7F800000u;
    const Vec<uint32_t, L> bits = (h & 0x7C00u) == 0x7C00u ? special : finite;
    return reinterpret_cast<Vec<float, L>>(bits | ((h & 0x8000u) << 16));
  } else {
    using S = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    Vec<S, L> v;
    std::memcpy(&v, p, sizeof v);
    if constexpr (std::is_same_v<T, bool>) v = reinterpret_cast<Vec<S, L>>(v != 0) & 1;
    return __builtin_convertvector(v, Vec<A, L>);
  }
}

template <class T, int L>
COGRAD_INLINE void store(T* p, Vec<Acc<T>, L> v) {
  using A = Acc<T>;
  if constexpr (std::is_same_v<T, A>) {
    std::memcpy(p, &v, sizeof v);
  } else {
    for (int i = 0; i < L; ++i) p[i] = static_cast<T>(v[i]);
  }
}

// Loads an element from any address. Foreign memory may hold any byte as a bool: every byte but 0
// is true.
template <class T>
COGRAD_INLINE Acc<T> widened(const void* p) {
  std::conditional_t<std::is_same_v<T, bool>, uint8_t, T> v;
  std::memcpy(&v, p, sizeof v);
  if constexpr (std::is_same_v<T, bool>) v = v != 0;
  return static_cast<Acc<T>>(v);
}

// Converts n contiguous elements to the accumulator type; narrow_row converts them back.
template <class T>
void widen_row(const T* x, int64_t n, Acc<T>* out) {
  using A = Acc<T>;
  constexpr int L = kLanes<A>;
  int64_t i = 0;
  for (; i + L <= n; i += L) store<A, L>(out + i, load(x + i));
  for (; i < n; ++i) out[i] = widened<T>(x + i);
}
template <class T>
void narrow_row(const Acc<T>* x, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(x[i]);
}

template <class A, int L>
COGRAD_INLINE Vec<Wide<A>, L> to_wide(Vec<A, L> v) {
#if defined(__AVX512F__)
  // GCC converts two halves and inserts one into the other.
  if constexpr (std::is_same_v<A, float> && L == 8)
    return reinterpret_cast<Vec<double, L>>(
        _mm512_maskz_cvtps_pd(0xFF, reinterpret_cast<__m256>(v)));
#endif
  return __builtin_convertvector(v, Vec<Wide<A>, L>);
}

// Combines lane i with lane i + L / 2 in the wide type.
template <class A, int L, class F>
COGRAD_INLINE Vec<Wide<A>, L / 2> fold_halves(Vec<A, L> v, F&& fold) {
  Vec<A, L / 2> half[2];
  std::memcpy(half, &v, sizeof v);
  return fold(to_wide<A, L / 2>(half[0]), to_wide<A, L / 2>(half[1]));
}

// Combines the lanes in pairs, in the wide type: lane i with lane i + L / 2, and so on.
template <class A, int L, class F>
COGRAD_INLINE Wide<A> join_lanes(Vec<A, L> v, F&& fold) {
  if constexpr (L == 1) {
    return static_cast<Wide<A>>(v[0]);
  } else {
    return join_lanes<Wide<A>, L / 2>(fold_halves<A, L>(v, fold), fold);
  }
}

// Does what four calls of join_lanes do, with the last two steps of all four in one vector. Needs
// L >= 4 lanes of the wide type.
template <class A, int L, class F>
COGRAD_INLINE Vec<Wide<A>, 4> join_four(Vec<A, L> v0, Vec<A, L> v1, Vec<A, L> v2, Vec<A, L> v3,
                                        F&& fold) {
  using W = Wide<A>;
  if constexpr (L > 4 || !std::is_same_v<A, W>) {
    return join_four<W, L / 2>(fold_halves<A, L>(v0, fold), fold_halves<A, L>(v1, fold),
                               fold_halves<A, L>(v2, fold), fold_halves<A, L>(v3, fold), fold);
  } else {
    const auto a = __builtin_shufflevector(v0, v1, 0, 4, 2, 6);
    const auto b = __builtin_shufflevector(v0, v1, 1, 5, 3, 7);
    const auto c = __builtin_shufflevector(v2, v3, 0, 4, 2, 6);
    const auto d = __builtin_shufflevector(v2, v3, 1, 5, 3, 7);
    const auto even =
        fold(__builtin_shufflevector(a, c, 0, 1, 4, 5), __builtin_shufflevector(a, c, 2, 3, 6, 7));
    const auto odd =
        fold(__builtin_shufflevector(b, d, 0, 1, 4, 5), __builtin_shufflevector(b, d, 2, 3, 6, 7));
    return fold(even, odd);
  }
}
template <class A, int L>
COGRAD_INLINE double add_lanes(Vec<A, L> v) {
  return join_lanes<A, L>(v, [](auto a, auto b) { return a + b; });
}

// Computes exp in float: the relative error is below 2e-7 down to exp(-87.3); below that the result
// is 0 (subnormal with AVX-512), above 88.73 it is inf. NaN stays NaN.
template <int L>
COGRAD_INLINE Vec<float, L> vexp(Vec<float, L> x) {
#if defined(__AVX512F__)
  if constexpr (L == 16)
    return reinterpret_cast<Vec<float, L>>(exp512(reinterpret_cast<__m512>(x)));
#endif
  using F = Vec<float, L>;
  using I = Vec<int32_t, L>;
  const F lo = F{} - 87.33654f;
  const F hi = F{} + 88.72283f;
  const I under = x<lo, over = x> hi, nan = x != x;
  F c = x < lo ? lo : x;
  c = c > hi ? hi : c;
  c = nan ? F{} : c;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low mantissa bits.
  const F t = c * 1.44269504f + 12582912.0f;
  const F n = t - 12582912.0f;
  F r = c - n * 0.693145752f;
  r = r - n * 1.42860677e-6f;
  F p = F{} + 1.39466418e-3f;
  p = p * r + 8.36928744e-3f;
  p = p * r + 4.16662605e-2f;
  p = p * r + 1.66665149e-1f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  // Multiply by 2^n in two factors, because n reaches 128.
  const I e = reinterpret_cast<I>(t) - 0x4B400000;
  const I e1 = e >> 1, e2 = e - e1;
  p = p * reinterpret_cast<F>((e1 + 127) << 23) * reinterpret_cast<F>((e2 + 127) << 23);
  p = under ? F{} : p;
  p = over ? F{} + __builtin_inff() : p;
  return nan ? x : p;
}
template <int L>
COGRAD_INLINE Vec<double, L> vexp(Vec<double, L> x) {
  using F = Vec<double, L>;
  using I = Vec<int64_t, L>;
  const F lo = F{} - 708.396418532264106;
  const F hi = F{} + 709.782712893383973;
  const I under = x<lo, over = x> hi, nan = x != x;
  F c = x < lo ? lo : x;
  c = c > hi ? hi : c;
  c = nan ? F{} : c;
  const F t = c * 1.44269504088896340736 + 6755399441055744.0;
  const F n = t - 6755399441055744.0;
  F r = c - n * 6.93147180369123816490e-1;
  r = r - n * 1.90821492927058770002e-10;
  // Taylor series up to r^13 / 13!: |r| <= 0.347 leaves an error of 4e-18.
  F p = F{} + 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r * r + r + 1.0;
  const I e = reinterpret_cast<I>(t) - 0x4338000000000000;
  const I e1 = e >> 1, e2 = e - e1;
  p = p * reinterpret_cast<F>((e1 + 1023) << 52) * reinterpret_cast<F>((e2 + 1023) << 52);
  p = under ? F{} : p;
  p = over ? F{} + __builtin_inf() : p;
  return nan ? x : p;
}

}  // namespace cograd::kernels::COGRAD_ISA
