// SPDX-License-Identifier: BSD-3-Clause
// Functions on whole AVX-512 vectors, for which AVX-512 instructions are faster than
// compiled loops over vecmath.h. Only the per-ISA kernel files include this.
#pragma once
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>

// See vecmath.h for the reason for the unnamed namespace.
namespace cograd::kernels {
namespace {

// ln 2 in two pieces: a product of the first with an integer below 2^12 is exact.
inline constexpr float kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;

// Computes exp(v) to 1 ulp. vscalefps rounds subnormal results once and returns the right values
// for inf and NaN. The lower bound keeps the polynomial finite where the reduction is meaningless.
inline __m512 exp512(__m512 v) {
  const __m512 shift = _mm512_set1_ps(0x1.8p23f);
  const __m512 x = _mm512_max_ps(_mm512_set1_ps(-1000.0f), v);
  const __m512 k = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), shift), shift);
  __m512 r = _mm512_fnmadd_ps(k, _mm512_set1_ps(kLn2High), x);
  r = _mm512_fnmadd_ps(k, _mm512_set1_ps(kLn2Low), r);
  // The polynomial has even degree and is positive for any r.
  __m512 p = _mm512_set1_ps(0x1.6a1f5ep-10f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.123cccp-7f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555904p-5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.55548ep-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.fffffcp-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, k);
}

// Holds 2^k and expm1(2 h) / 2, where -2 a = k ln 2 + 2 h, for 0 <= a < 40.
struct ExpParts512 {
  __m512 scale, half;
};
inline ExpParts512 exp_parts512(__m512 a) {
  // Adding `shift` leaves k, biased as an exponent, in the low bits.
  const __m512 shift = _mm512_set1_ps(0x1.8p23f + 127.0f);
  const __m512 t = _mm512_fnmadd_ps(a, _mm512_set1_ps(2.88539008f), shift);
  const __m512 k = _mm512_sub_ps(t, shift);
  __m512 h = _mm512_fnmsub_ps(k, _mm512_set1_ps(kLn2High / 2), a);
  h = _mm512_fnmadd_ps(k, _mm512_set1_ps(kLn2Low / 2), h);
  __m512 q = _mm512_set1_ps(0x1.6a1f5ep-5f);
  q = _mm512_fmadd_ps(q, h, _mm512_set1_ps(0x1.123cccp-3f));
  q = _mm512_fmadd_ps(q, h, _mm512_set1_ps(0x1.555904p-2f));
  q = _mm512_fmadd_ps(q, h, _mm512_set1_ps(0x1.55548ep-1f));
  q = _mm512_fmadd_ps(q, h, _mm512_set1_ps(0x1.fffffcp-1f));
  const __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23));
  return {scale, _mm512_fmadd_ps(_mm512_mul_ps(h, h), q, h)};
}

// Returns the magnitude of `value` with the sign of `sign`.
inline __m512 copysign512(__m512 value, __m512 sign) {
  const __m512i mask = _mm512_set1_epi32(0x7FFFFFFF);
  return _mm512_castsi512_ps(
      _mm512_ternarylogic_epi32(mask, _mm512_castps_si512(value), _mm512_castps_si512(sign), 0xCA));
}

// Computes tanh(v) = -h / (1 + h) with h = expm1(-2 |v|) / 2.
inline __m512 tanh512(__m512 v) {
  // A NaN is the second operand, which minps returns.
  const __m512 a = _mm512_min_ps(_mm512_set1_ps(10.0f), _mm512_abs_ps(v));
  const ExpParts512 e = exp_parts512(a);
  const __m512 half = _mm512_set1_ps(0.5f);
  const __m512 h = _mm512_fmadd_ps(e.scale, e.half, _mm512_fmsub_ps(e.scale, half, half));
  const __m512 d = _mm512_add_ps(h, _mm512_set1_ps(1.0f));
  const __m512 inverse = _mm512_rcp14_ps(d);
  __m512 q = _mm512_mul_ps(h, inverse);
  q = _mm512_fmadd_ps(_mm512_fnmadd_ps(d, q, h), inverse, q);
  return copysign512(q, v);
}

// Computes log(v) to 2 ulp: v = 2^e m with m in [3/4, 3/2). The results of getmant and getexp make
// zeros, infinities, negative numbers and NaN come out right.
inline __m512 log512(__m512 v) {
  const __m512 m = _mm512_getmant_ps(v, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  const __m512 e = _mm512_sub_ps(_mm512_getexp_ps(v), _mm512_getexp_ps(m));
  const __m512 r = _mm512_sub_ps(m, _mm512_set1_ps(1.0f));
  __m512 q = _mm512_set1_ps(-0x1.6fe53p-5f);
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.abf622p-4f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(-0x1.0d8ff6p-3f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.2897bep-3f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(-0x1.54f24p-3f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.99685ap-3f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(-0x1.000024p-2f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.5555a6p-2f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(-0.5f));
  const __m512 y = _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r);
  return _mm512_fmadd_ps(e, _mm512_set1_ps(0.693147181f), y);
}

// Computes sqrt(v), correctly rounded by Markstein's steps; uses the instruction for special, very
// small and very large numbers.
inline __m512 sqrt512(__m512 v) {
  const __m512i low = _mm512_set1_epi32(0x0D800000);  // 2^-100
  const __m512i above = _mm512_sub_epi32(_mm512_castps_si512(v), low);
  if (_mm512_cmpgt_epu32_mask(above, _mm512_set1_epi32(0x7E800000 - 0x0D800000)) != 0)
    return _mm512_sqrt_ps(v);
  const __m512 half = _mm512_set1_ps(0.5f);
  const __m512 inverse = _mm512_rsqrt14_ps(v);
  __m512 g = _mm512_mul_ps(v, inverse);
  __m512 h = _mm512_mul_ps(half, inverse);
  const __m512 r = _mm512_fnmadd_ps(g, h, half);
  g = _mm512_fmadd_ps(g, r, g);
  h = _mm512_fmadd_ps(h, r, h);
  return _mm512_fmadd_ps(_mm512_fnmadd_ps(g, g, v), h, g);
}

// Computes sqrt(v) like sqrt512(), with one step more.
inline __m512d sqrt512(__m512d v) {
  const __m512i low = _mm512_set1_epi64(0x2000000000000000);  // 2^-511
  const __m512i above = _mm512_sub_epi64(_mm512_castpd_si512(v), low);
  if (_mm512_cmpgt_epu64_mask(above, _mm512_set1_epi64(0x7FE0000000000000 - 0x2000000000000000)) !=
      0)
    return _mm512_sqrt_pd(v);
  const __m512d half = _mm512_set1_pd(0.5);
  const __m512d inverse = _mm512_rsqrt14_pd(v);
  __m512d g = _mm512_mul_pd(v, inverse);
  __m512d h = _mm512_mul_pd(half, inverse);
  for (int step = 0; step < 2; ++step) {
    const __m512d r = _mm512_fnmadd_pd(g, h, half);
    g = _mm512_fmadd_pd(g, r, g);
    h = _mm512_fmadd_pd(h, r, h);
  }
  return _mm512_fmadd_pd(_mm512_fnmadd_pd(g, g, v), h, g);
}

}  // namespace
}  // namespace cograd::kernels
#endif
