// SPDX-License-Identifier: BSD-3-Clause
// Vectorised Philox4x32-10 and transformations of its words; compiled once per instruction set.
#include "kernels/random/random_loops.h"

#include <cmath>
#include <cstring>

#include "kernels/reduce/reduce_vec.h"

namespace cograd::kernels::COGRAD_ISA {

RandomLoops random_loops();

namespace {

constexpr int L = kLanes<uint32_t>;
constexpr int kParts = static_cast<int>(kGroupBlocks) / L;  // vectors that make up 16 lanes
using U = Vec<uint32_t, L>;
using I = Vec<int32_t, L>;
using F = Vec<float, L>;
constexpr int D = kLanes<double>;
using VD = Vec<double, D>;
using VU = Vec<uint64_t, D>;
using VI = Vec<int64_t, D>;

// Computes both halves of the 64-bit products of the lanes with m.
COGRAD_INLINE void multiply(U x, uint32_t m, U* hi, U* lo) {
#if defined(__AVX512F__)
  const __m512i k = _mm512_set1_epi32(static_cast<int>(m));
  // Use the masked form, because GCC 12 warns about the plain one.
  const auto mul = [k](VU v) {
    return reinterpret_cast<VU>(_mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(v), k));
  };
#elif defined(__AVX2__)
  const __m256i k = _mm256_set1_epi32(static_cast<int>(m));
  const auto mul = [k](VU v) {
    return reinterpret_cast<VU>(_mm256_mul_epu32(reinterpret_cast<__m256i>(v), k));
  };
#endif
#if defined(__AVX2__)
  const VU even = mul(reinterpret_cast<VU>(x)), odd = mul(reinterpret_cast<VU>(x) >> 32);
  *hi = reinterpret_cast<U>((even >> 32) | (odd & 0xFFFFFFFF00000000u));
  *lo = reinterpret_cast<U>((even & 0xFFFFFFFFu) | (odd << 32));
#else
  for (int i = 0; i < L; ++i) {
    const uint64_t p = static_cast<uint64_t>(x[i]) * m;
    (*hi)[i] = static_cast<uint32_t>(p >> 32);
    (*lo)[i] = static_cast<uint32_t>(p);
  }
#endif
}

void words(uint64_t seed, uint64_t first_block, int64_t groups, uint32_t* out) {
  U lane;
  for (int i = 0; i < L; ++i) lane[i] = static_cast<uint32_t>(i);
  for (int64_t v = 0; v < groups * kParts; ++v) {
    const uint64_t block = first_block + static_cast<uint64_t>(v) * L;
    const auto low = static_cast<uint32_t>(block);
    U c0 = U{} + low + lane;
    // Lanes whose low word wrapped carry into the high word.
    U c1 = U{} + static_cast<uint32_t>(block >> 32) - reinterpret_cast<U>(c0 < low);
    U c2{}, c3{};
    auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      U hi0, lo0, hi1, lo1;
      multiply(c0, 0xD2511F53u, &hi0, &lo0);
      multiply(c2, 0xCD9E8D57u, &hi1, &lo1);
      c0 = hi1 ^ c1 ^ k0;
      c1 = lo1;
      c2 = hi0 ^ c3 ^ k1;
      c3 = lo0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    uint32_t* group = out + v / kParts * kGroupWords + v % kParts * L;
    std::memcpy(group, &c0, sizeof c0);
    std::memcpy(group + 16, &c1, sizeof c1);
    std::memcpy(group + 32, &c2, sizeof c2);
    std::memcpy(group + 48, &c3, sizeof c3);
  }
}

COGRAD_INLINE U load_words(const uint32_t* p) {
  U v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Loads 64-bit numbers of a group: words 0 and 1 make entries 0..15, words 2 and 3 entries 16..31.
COGRAD_INLINE VU load_pair(const uint32_t* group, int i) {
  const uint32_t* p = group + (i / 16) * 32 + i % 16;
  Vec<uint32_t, D> low, high;
  std::memcpy(&low, p, sizeof low);
  std::memcpy(&high, p + 16, sizeof high);
  return (__builtin_convertvector(high, VU) << 32) | __builtin_convertvector(low, VU);
}

// Returns 52 random bits as a number in [1, 2), minus 1, which is exact; adding half a step keeps
// it above 0.
COGRAD_INLINE VD unit_open(VU bits) {
  return reinterpret_cast<VD>((bits >> 12) | 0x3FF0000000000000u) - (1.0 - 0x1p-53);
}

// Returns a number in (0, 1): at least 2^-33, at most 1 - 2^-24.
COGRAD_INLINE F unit_open(U bits) {
  const F u = __builtin_convertvector(reinterpret_cast<I>(bits >> 1), F) * 0x1p-31f + 0x1p-33f;
  const F top = F{} + (1.0f - 0x1p-24f);
  return u > top ? top : u;
}

// Computes log of a positive normal number by the atanh series, for a mantissa in
// [sqrt(1/2), sqrt(2)).
COGRAD_INLINE F vlog(F x) {
  const I bits = reinterpret_cast<I>(x);
  const I e = (bits - 0x3F3504F3) >> 23;
  const F m = reinterpret_cast<F>(bits - (e << 23));
  const F f = m - 1.0f;
  const F s = f / (m + 1.0f);
  const F z = s * s;
  F p = F{} + 0.2222222f;
  p = p * z + 0.28571429f;
  p = p * z + 0.4f;
  p = p * z + 0.66666667f;
  // 2 s = f - s f keeps the leading term exact.
  const F n = __builtin_convertvector(e, F);
  return n * 0.693145752f + (n * 1.42860677e-6f + (f - s * (f - z * p)));
}
COGRAD_INLINE VD vlog(VD x) {
  const VI bits = reinterpret_cast<VI>(x);
  const VI e = (bits - 0x3FE6A09E667F3BCD) >> 52;
  const VD m = reinterpret_cast<VD>(bits - (e << 52));
  const VD f = m - 1.0;
  const VD s = f / (m + 1.0);
  const VD z = s * s;
  VD p = VD{} + 2.0 / 23;
  p = p * z + 2.0 / 21;
  p = p * z + 2.0 / 19;
  p = p * z + 2.0 / 17;
  p = p * z + 2.0 / 15;
  p = p * z + 2.0 / 13;
  p = p * z + 2.0 / 11;
  p = p * z + 2.0 / 9;
  p = p * z + 2.0 / 7;
  p = p * z + 2.0 / 5;
  p = p * z + 2.0 / 3;
  const VD n = __builtin_convertvector(e, VD);
  return n * 6.93147180369123816490e-1 + (n * 1.90821492927058770002e-10 + (f - s * (f - z * p)));
}

// Computes sqrt lane by lane; the compiler makes one instruction of it.
template <class V, class A>
COGRAD_INLINE V vsqrt(V v) {
  for (int i = 0; i < static_cast<int>(sizeof(V) / sizeof(A)); ++i) v[i] = std::sqrt(v[i]);
  return v;
}

// Computes sine and cosine of `bits` / 2^32 of a turn.
COGRAD_INLINE void sincos_turn(U bits, F* sine, F* cosine) {
  // The quadrant is the nearest multiple of a quarter turn; the rest is within an eighth.
  const U q = (bits + 0x20000000u) >> 30;
  const F r = __builtin_convertvector(reinterpret_cast<I>(bits - (q << 30)), F) * 1.46291808e-9f;
  const F z = r * r;
  F s = F{} - 1.9515296e-4f;
  s = s * z + 8.3321609e-3f;
  s = s * z - 1.6666655e-1f;
  s = s * z * r + r;
  F c = F{} + 2.4433157e-5f;
  c = c * z - 1.3887316e-3f;
  c = c * z + 4.1666646e-2f;
  c = c * z * z - 0.5f * z + 1.0f;
  const I odd = (q & 1u) != 0u;
  const F sw = odd ? c : s, cw = odd ? s : c;
  // sin is negative in quadrants 2 and 3, cos in 1 and 2.
  *sine = reinterpret_cast<F>(reinterpret_cast<U>(sw) ^ ((q & 2u) << 30));
  *cosine = reinterpret_cast<F>(reinterpret_cast<U>(cw) ^ (((q + 1u) & 2u) << 30));
}
COGRAD_INLINE void sincos_turn(VU bits, VD* sine, VD* cosine) {
  const VU q = (bits + 0x2000000000000000u) >> 62;
  const VI rest = reinterpret_cast<VI>(bits - (q << 62));
  const VD r = __builtin_convertvector(rest, VD) * 3.40612158008655459e-19;
  const VD z = r * r;
  VD s = VD{} - 1.0 / 1307674368000.0;
  s = s * z + 1.0 / 6227020800.0;
  s = s * z - 1.0 / 39916800.0;
  s = s * z + 1.0 / 362880.0;
  s = s * z - 1.0 / 5040.0;
  s = s * z + 1.0 / 120.0;
  s = s * z - 1.0 / 6.0;
  s = s * z * r + r;
  VD c = VD{} + 1.0 / 20922789888000.0;
  c = c * z - 1.0 / 87178291200.0;
  c = c * z + 1.0 / 479001600.0;
  c = c * z - 1.0 / 3628800.0;
  c = c * z + 1.0 / 40320.0;
  c = c * z - 1.0 / 720.0;
  c = c * z + 1.0 / 24.0;
  c = c * z * z - 0.5 * z + 1.0;
  const VI odd = (q & 1u) != 0u;
  const VD sw = odd ? c : s, cw = odd ? s : c;
  *sine = reinterpret_cast<VD>(reinterpret_cast<VU>(sw) ^ ((q & 2u) << 62));
  *cosine = reinterpret_cast<VD>(reinterpret_cast<VU>(cw) ^ (((q + 1u) & 2u) << 62));
}

void uniform_float(const uint32_t* w, int64_t groups, int bits, float* out) {
  const float scale = std::ldexp(1.0f, -bits);
  const int shift = 32 - bits;
  for (int64_t i = 0; i < groups * kGroupWords; ++i) {
    out[i] = static_cast<float>(static_cast<int32_t>(w[i] >> shift)) * scale;
  }
}

void uniform_double(const uint32_t* w, int64_t groups, double* out) {
  for (int64_t g = 0; g < groups; ++g) {
    for (int i = 0; i < 32; i += D) {
      const VU bits = load_pair(w + g * kGroupWords, i);
      // Add 52 bits in the mantissa and the last bit to get 53 bits.
      const VD high = reinterpret_cast<VD>((bits >> 12) | 0x3FF0000000000000u) - 1.0;
      const VU last = (bits >> 11) & 1u;
      const VD low = reinterpret_cast<VD>((VU{} - last) & 0x3CA0000000000000u);
      const VD v = high + low;
      std::memcpy(out + g * 32 + i, &v, sizeof v);
    }
  }
}

// Applies Box-Muller to word pairs (0, 1) and (2, 3).
void normal_float(const uint32_t* w, int64_t groups, float* out) {
  for (int64_t v = 0; v < groups * 2 * kParts; ++v) {
    const int64_t at = v / kParts * 32 + v % kParts * L;
    F s, c;
    const F r = vsqrt<F, float>(vlog(unit_open(load_words(w + at))) * -2.0f);
    sincos_turn(load_words(w + at + 16), &s, &c);
    s *= r;
    c *= r;
    std::memcpy(out + at, &c, sizeof c);
    std::memcpy(out + at + 16, &s, sizeof s);
  }
}

void normal_double(const uint32_t* w, int64_t groups, double* out) {
  for (int64_t g = 0; g < groups; ++g) {
    for (int i = 0; i < 16; i += D) {
      VD s, c;
      const VD r = vsqrt<VD, double>(vlog(unit_open(load_pair(w + g * kGroupWords, i))) * -2.0);
      sincos_turn(load_pair(w + g * kGroupWords, i + 16), &s, &c);
      s *= r;
      c *= r;
      std::memcpy(out + g * 32 + i, &c, sizeof c);
      std::memcpy(out + g * 32 + 16 + i, &s, sizeof s);
    }
  }
}

void exponential_float(const uint32_t* w, int64_t groups, float* out) {
  for (int64_t i = 0; i < groups * kGroupWords; i += L) {
    const F v = -vlog(unit_open(load_words(w + i)));
    std::memcpy(out + i, &v, sizeof v);
  }
}

void exponential_double(const uint32_t* w, int64_t groups, double* out) {
  for (int64_t g = 0; g < groups; ++g) {
    for (int i = 0; i < 32; i += D) {
      const VD v = -vlog(unit_open(load_pair(w + g * kGroupWords, i)));
      std::memcpy(out + g * 32 + i, &v, sizeof v);
    }
  }
}

void bits64(const uint32_t* w, int64_t groups, uint64_t* out) {
  for (int64_t g = 0; g < groups; ++g) {
    for (int i = 0; i < 32; i += D) {
      const VU v = load_pair(w + g * kGroupWords, i);
      std::memcpy(out + g * 32 + i, &v, sizeof v);
    }
  }
}

// Computes (bits * range) >> 64 from 32-bit halves.
void below(const uint32_t* w, int64_t groups, uint32_t range, int64_t lo, int64_t* out) {
  for (int64_t g = 0; g < groups; ++g) {
    for (int i = 0; i < 32; ++i) {
      const uint32_t* p = w + g * kGroupWords + (i / 16) * 32 + i % 16;
      const uint64_t low = static_cast<uint64_t>(p[0]) * range;
      const uint64_t high = static_cast<uint64_t>(p[16]) * range;
      const uint64_t v = (high + (low >> 32)) >> 32;
      out[g * 32 + i] = static_cast<int64_t>(static_cast<uint64_t>(lo) + v);
    }
  }
}

void at_most(const uint32_t* w, int64_t groups, uint32_t last, uint8_t* out) {
  for (int64_t i = 0; i < groups * kGroupWords; ++i) out[i] = w[i] <= last;
}

}  // namespace

RandomLoops random_loops() {
  return {words,
          uniform_float,
          uniform_double,
          normal_float,
          normal_double,
          exponential_float,
          exponential_double,
          bits64,
          below,
          at_most};
}

}  // namespace cograd::kernels::COGRAD_ISA
