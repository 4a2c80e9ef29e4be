// SPDX-License-Identifier: BSD-3-Clause
// exp, log and tanh in float64 on whole AVX-512 vectors: tables of 16 entries in two registers and
// short polynomials. Only the per-ISA kernel files include this.
#pragma once
#include "kernels/core/vecmath512.h"
#if defined(__AVX512F__) && defined(__AVX512DQ__)

// See vecmath.h for the reason for the unnamed namespace.
namespace cograd::kernels {
namespace {

inline constexpr double kLn2HighDouble = 0x1.62e42fefa0000p-1,
                        kLn2LowDouble = 0x1.cf79abc9e3b3ap-40;
inline constexpr double kShiftDouble = 0x1.8p52;  // adding it rounds to an integer

// 2^(j / 16), and how much that is too small, as a part of it.
inline constexpr double kPowers[16] = {0x1p+0,
                                       0x1.0b5586cf9890fp+0,
                                       0x1.172b83c7d517bp+0,
                                       0x1.2387a6e756238p+0,
                                       0x1.306fe0a31b715p+0,
                                       0x1.3dea64c123422p+0,
                                       0x1.4bfdad5362a27p+0,
                                       0x1.5ab07dd485429p+0,
                                       0x1.6a09e667f3bcdp+0,
                                       0x1.7a11473eb0187p+0,
                                       0x1.8ace5422aa0dbp+0,
                                       0x1.9c49182a3f090p+0,
                                       0x1.ae89f995ad3adp+0,
                                       0x1.c199bdd85529cp+0,
                                       0x1.d5818dcfba487p+0,
                                       0x1.ea4afa2a490dap+0};
inline constexpr double kPowersRest[16] = {0,
                                           0x1.79aa65d837b6dp-54,
                                           -0x1.01b15eaa59348p-55,
                                           0x1.68efde3a8a894p-54,
                                           0x1.34d754db0abb6p-55,
                                           0x1.59f48a72a4c6dp-55,
                                           0x1.690cebb7aafb0p-56,
                                           0x1.063e1e21c5409p-54,
                                           -0x1.3b3efbf5e2228p-54,
                                           -0x1.b32dcb94da51dp-56,
                                           0x1.db72fc1f0eab4p-55,
                                           0x1.1affc2b91ce27p-56,
                                           0x1.c1a7792cb3387p-55,
                                           0x1.36eae30af0cb3p-56,
                                           0x1.4a385a63d07a7p-56,
                                           -0x1.ff7128fd391f0p-55};
// (expm1(r) - r) / r^2 for |r| <= ln 2 / 32, and (log1p(r) - r) / r^2 for |r| <= 1 / 24.
inline constexpr double kExpRest[] = {0x1p-1, 0x1.55555554dcc9bp-3, 0x1.55555555190f9p-5,
                                      0x1.11120b77051e7p-7, 0x1.6c17bbd1f560ap-10};
inline constexpr double kExpm1Rest[] = {0x1.0000000000001p-1,  0x1.5555555555556p-3,
                                        0x1.55555554e8d7bp-5,  0x1.11111110e0d94p-7,
                                        0x1.6c17ede661f5cp-10, 0x1.a01b0cb76698bp-13};
inline constexpr double kLogRest[] = {-0x1p-1,
                                      0x1.5555555555344p-2,
                                      -0x1.ffffffffffc36p-3,
                                      0x1.999999a15526ap-3,
                                      -0x1.5555555c6bff5p-3,
                                      0x1.24920aa70184fp-3,
                                      -0x1.ffff8d6e05f67p-4,
                                      0x1.c89260e8d595ap-4,
                                      -0x1.9af061fd61c9dp-4};
// c close to 16 / j, and -log(c), for j = 12 to 24; the index is j modulo 16.
inline constexpr double kInverses[16] = {0x1p+0,
                                         0x1.e1e1e1e1e1e1ep-1,
                                         0x1.c71c71c71c71cp-1,
                                         0x1.af286bca1af28p-1,
                                         0x1.999999999999ap-1,
                                         0x1.8618618618618p-1,
                                         0x1.745d1745d1746p-1,
                                         0x1.642c8590b2164p-1,
                                         0x1.5555555555555p-1,
                                         0x1p+0,
                                         0x1p+0,
                                         0x1p+0,
                                         0x1.5555555555555p+0,
                                         0x1.3b13b13b13b14p+0,
                                         0x1.2492492492492p+0,
                                         0x1.1111111111111p+0};
inline constexpr double kLogs[16] = {0,
                                     0x1.f0a30c01162a8p-5,
                                     0x1.e27076e2af2eap-4,
                                     0x1.5ff3070a793d6p-3,
                                     0x1.c8ff7c79a9a20p-3,
                                     0x1.1675cababa60fp-2,
                                     0x1.4618bc21c5ec2p-2,
                                     0x1.739d7f6bbd007p-2,
                                     0x1.9f323ecbf984dp-2,
                                     0,
                                     0,
                                     0,
                                     -0x1.269621134db91p-2,
                                     -0x1.a93ed3c8ad9e5p-3,
                                     -0x1.1178e8227e47ap-3,
                                     -0x1.08598b59e3a06p-4};

// Reads the entries that the low four bits of each lane number.
inline __m512d entries512(const double* table, __m512d index) {
  return _mm512_permutex2var_pd(_mm512_loadu_pd(table), _mm512_castpd_si512(index),
                                _mm512_loadu_pd(table + 8));
}
template <int kCount>
inline __m512d horner512(const double (&c)[kCount], __m512d x) {
  __m512d q = _mm512_set1_pd(c[kCount - 1]);
  for (int i = kCount - 2; i >= 0; --i) q = _mm512_fmadd_pd(q, x, _mm512_set1_pd(c[i]));
  return q;
}
// Returns x - n ln 2 / 16.
inline __m512d reduced512(__m512d x, __m512d n) {
  const __m512d r = _mm512_fnmadd_pd(n, _mm512_set1_pd(kLn2HighDouble / 16), x);
  return _mm512_fnmadd_pd(n, _mm512_set1_pd(kLn2LowDouble / 16), r);
}

// Computes exp(v) to 1.2 ulp. vscalefpd takes the floor of n / 16, rounds subnormal results once
// and overflows to infinity.
inline __m512d exp512(__m512d v) {
  const __m512d bound = _mm512_set1_pd(1000.0), shift = _mm512_set1_pd(kShiftDouble);
  const __m512d x = _mm512_min_pd(bound, _mm512_max_pd(_mm512_set1_pd(-1000.0), v));
  const __m512d t = _mm512_fmadd_pd(x, _mm512_set1_pd(16 / 0.693147180559945309), shift);
  const __m512d n = _mm512_sub_pd(t, shift), r = reduced512(x, n);
  const __m512d p = _mm512_fmadd_pd(_mm512_mul_pd(r, r), horner512(kExpRest, r), r);
  const __m512d power = entries512(kPowers, t);
  return _mm512_scalef_pd(_mm512_fmadd_pd(power, p, power),
                          _mm512_mul_pd(n, _mm512_set1_pd(1.0 / 16)));
}

// Computes log(v) to 1.9 ulp: v = 2^e m with m in [3/4, 3/2), and m = (1 + r) / c. As in float32,
// getmant and getexp make special values come out right.
inline __m512d log512(__m512d v) {
  const __m512d m = _mm512_getmant_pd(v, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  const __m512d e = _mm512_sub_pd(_mm512_getexp_pd(v), _mm512_getexp_pd(m));
  const __m512d j = _mm512_fmadd_pd(m, _mm512_set1_pd(16.0), _mm512_set1_pd(kShiftDouble));
  const __m512d r = _mm512_fmsub_pd(m, entries512(kInverses, j), _mm512_set1_pd(1.0));
  const __m512d low = _mm512_fmadd_pd(e, _mm512_set1_pd(kLn2LowDouble), r);
  const __m512d y = _mm512_fmadd_pd(_mm512_mul_pd(r, r), horner512(kLogRest, r), low);
  return _mm512_add_pd(_mm512_fmadd_pd(e, _mm512_set1_pd(kLn2HighDouble), entries512(kLogs, j)), y);
}

// Computes tanh(v) to 2.4 ulp as -h / (2 + h) with h = expm1(-2 |v|), or, if exp(-2 |v|) = E is
// below 1/2, as 1 - 2 E / (1 + E).
inline __m512d tanh512(__m512d v) {
  const __m512d one = _mm512_set1_pd(1.0), two = _mm512_set1_pd(2.0);
  const __m512d shift = _mm512_set1_pd(kShiftDouble);
  // A NaN is the second operand, which minpd returns.
  const __m512d a = _mm512_min_pd(_mm512_set1_pd(20.0), _mm512_abs_pd(v));
  const __m512d t = _mm512_fnmadd_pd(a, _mm512_set1_pd(32 / 0.693147180559945309), shift);
  const __m512d n = _mm512_sub_pd(t, shift);
  const __m512d r = reduced512(_mm512_mul_pd(a, _mm512_set1_pd(-2.0)), n);
  const __m512d p = _mm512_fmadd_pd(_mm512_mul_pd(r, r), horner512(kExpm1Rest, r), r);
  const __m512d rest = _mm512_add_pd(p, entries512(kPowersRest, t));
  const __m512d power =
      _mm512_scalef_pd(entries512(kPowers, t), _mm512_mul_pd(n, _mm512_set1_pd(1.0 / 16)));
  const __mmask8 far = _mm512_cmp_pd_mask(n, _mm512_set1_pd(-16.0), _CMP_LT_OQ);
  const __m512d start = _mm512_mask_mov_pd(_mm512_sub_pd(power, one), far, power);
  const __m512d h = _mm512_fmadd_pd(power, rest, start);  // E if far
  const __m512d d = _mm512_add_pd(h, _mm512_mask_mov_pd(two, far, one));
  const __m512d numerator = _mm512_mask_mul_pd(h, far, h, two);
  __m512d inverse = _mm512_rcp14_pd(d);
  inverse = _mm512_fmadd_pd(_mm512_fnmadd_pd(d, inverse, one), inverse, inverse);
  __m512d q = _mm512_mul_pd(numerator, inverse);
  q = _mm512_fmadd_pd(_mm512_fnmadd_pd(d, q, numerator), inverse, q);
  q = _mm512_mask_sub_pd(q, far, one, q);
  const __m512i magnitude = _mm512_set1_epi64(0x7FFFFFFFFFFFFFFF);
  return _mm512_castsi512_pd(
      _mm512_ternarylogic_epi64(magnitude, _mm512_castpd_si512(q), _mm512_castpd_si512(v), 0xCA));
}

}  // namespace
}  // namespace cograd::kernels
#endif
