// SPDX-License-Identifier: BSD-3-Clause
// Fused multiplications of vectors, and loads and stores of parts of a vector. The intrinsics make
// certain that every level with such an instruction rounds once, so that these levels agree.
#pragma once
#include <algorithm>

#include "kernels/reduce/reduce_vec.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace cograd::kernels::COGRAD_ISA {

COGRAD_INLINE Vec<float, kLanes<float>> broadcast(float x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec<float, 16>>(_mm512_set1_ps(x));
#elif defined(__FMA__)
  return reinterpret_cast<Vec<float, 8>>(_mm256_set1_ps(x));
#else
  return Vec<float, 4>{x, x, x, x};
#endif
}
COGRAD_INLINE Vec<double, kLanes<double>> broadcast(double x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec<double, 8>>(_mm512_set1_pd(x));
#elif defined(__FMA__)
  return reinterpret_cast<Vec<double, 4>>(_mm256_set1_pd(x));
#else
  return Vec<double, 2>{x, x};
#endif
}

// Computes a * b + c; only x86-64's base level rounds the product, too.
COGRAD_INLINE Vec<float, kLanes<float>> fused(Vec<float, kLanes<float>> a,
                                              Vec<float, kLanes<float>> b,
                                              Vec<float, kLanes<float>> c) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec<float, 16>>(_mm512_fmadd_ps(
      reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif defined(__FMA__)
  return reinterpret_cast<Vec<float, 8>>(_mm256_fmadd_ps(
      reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#elif defined(__aarch64__)
  return reinterpret_cast<Vec<float, 4>>(vfmaq_f32(reinterpret_cast<float32x4_t>(c),
                                                   reinterpret_cast<float32x4_t>(a),
                                                   reinterpret_cast<float32x4_t>(b)));
#else
  return a * b + c;
#endif
}
COGRAD_INLINE Vec<double, kLanes<double>> fused(Vec<double, kLanes<double>> a,
                                                Vec<double, kLanes<double>> b,
                                                Vec<double, kLanes<double>> c) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec<double, 8>>(_mm512_fmadd_pd(
      reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b), reinterpret_cast<__m512d>(c)));
#elif defined(__FMA__)
  return reinterpret_cast<Vec<double, 4>>(_mm256_fmadd_pd(
      reinterpret_cast<__m256d>(a), reinterpret_cast<__m256d>(b), reinterpret_cast<__m256d>(c)));
#elif defined(__aarch64__)
  return reinterpret_cast<Vec<double, 2>>(vfmaq_f64(reinterpret_cast<float64x2_t>(c),
                                                    reinterpret_cast<float64x2_t>(a),
                                                    reinterpret_cast<float64x2_t>(b)));
#else
  return a * b + c;
#endif
}

// The first lanes of a vector. load() sets the others to zero and reads nothing of them.
template <class T>
class FirstLanes {
 public:
  static constexpr int L = kLanes<T>;
#if defined(__AVX512F__)
  static constexpr bool kFree = true;  // takes no longer than whole vectors
  COGRAD_INLINE explicit FirstLanes(int64_t count)
      : mask_(static_cast<__mmask16>((uint32_t{1} << count) - 1)) {}
  COGRAD_INLINE Vec<T, L> load(const T* p) const {
    if constexpr (sizeof(T) == 4)
      return reinterpret_cast<Vec<T, L>>(_mm512_maskz_loadu_ps(mask_, p));
    else
      return reinterpret_cast<Vec<T, L>>(_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask_), p));
  }
  COGRAD_INLINE void store(T* p, Vec<T, L> v) const {
    if constexpr (sizeof(T) == 4)
      _mm512_mask_storeu_ps(p, mask_, reinterpret_cast<__m512>(v));
    else
      _mm512_mask_storeu_pd(p, static_cast<__mmask8>(mask_), reinterpret_cast<__m512d>(v));
  }

 private:
  __mmask16 mask_;
#elif defined(__AVX2__)
  static constexpr bool kFree = false;
  COGRAD_INLINE explicit FirstLanes(int64_t count) {
    static constexpr int32_t kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    const auto* from = kMasks + 8 - count * (sizeof(T) / 4);
    mask_ = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  COGRAD_INLINE Vec<T, L> load(const T* p) const {
    if constexpr (sizeof(T) == 4)
      return reinterpret_cast<Vec<T, L>>(_mm256_maskload_ps(p, mask_));
    else
      return reinterpret_cast<Vec<T, L>>(_mm256_maskload_pd(p, mask_));
  }
  COGRAD_INLINE void store(T* p, Vec<T, L> v) const {
    if constexpr (sizeof(T) == 4)
      _mm256_maskstore_ps(p, mask_, reinterpret_cast<__m256>(v));
    else
      _mm256_maskstore_pd(p, mask_, reinterpret_cast<__m256d>(v));
  }

 private:
  __m256i mask_;
#else
  static constexpr bool kFree = false;
  COGRAD_INLINE explicit FirstLanes(int64_t count) : count_(count) {}
  COGRAD_INLINE Vec<T, L> load(const T* p) const {
    Vec<T, L> v{};
    for (int64_t i = 0; i < count_; ++i) v[i] = p[i];
    return v;
  }
  COGRAD_INLINE void store(T* p, Vec<T, L> v) const {
    for (int64_t i = 0; i < count_; ++i) p[i] = v[i];
  }

 private:
  int64_t count_;
#endif
};

// Loads `count` elements, at most a vector, in the accumulator's type; the other lanes are zero.
template <class S>
COGRAD_INLINE Vec<Acc<S>, kLanes<Acc<S>>> load_first(const S* p, int64_t count) {
  using T = Acc<S>;
  if constexpr (std::is_same_v<S, T>) {
    return FirstLanes<T>(count).load(p);
  } else {
    S room[kLanes<T>] = {};
    for (int64_t i = 0; i < count; ++i) room[i] = p[i];
    return load(room);
  }
}

}  // namespace cograd::kernels::COGRAD_ISA
