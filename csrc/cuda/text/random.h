// SPDX-License-Identifier: BSD-3-Clause
// Random fills of dtype -DTYPE=. A thread computes one Philox block; half a warp has a group, so
// its stores are 16 neighbouring elements. Bound by arithmetic for 16-bit dtypes, else by memory.
#include "cuda/args/random_args.h"
#include "exact.h"

namespace cograd::device {

using T = TYPE;
constexpr bool kDouble = is_same<T, double>;

// Calls f(group, block of the group, words) for the blocks of this thread.
template <class F>
inline void each_block(const RandomArgs& a, F&& f) {
  const uint64_t seed = a.base == nullptr ? a.seed : a.base[0];
  const uint64_t offset = a.base == nullptr ? a.offset : a.base[1] + a.offset;
  for (int64_t i = grid_index(); i < a.groups * kGroupBlocks; i += grid_size())
    f(i / kGroupBlocks, static_cast<int>(i % kGroupBlocks),
      philox(seed, offset + static_cast<uint64_t>(i)));
}
template <class V>
inline T element_of(V v) {
  if constexpr (is_same<T, Half> || is_same<T, BFloat16>)
    return T(static_cast<float>(v));
  else
    return static_cast<T>(v);
}
inline void put(const RandomArgs& a, int64_t i, T v) {
  if (i < a.n) static_cast<T*>(a.out)[i] = v;
}
inline uint64_t pair(const PhiloxWords& x, int k) {
  return static_cast<uint64_t>(x.w[2 * k + 1]) << 32 | x.w[2 * k];
}

// A number in (0, 1): at least 2^-33, at most 1 - 2^-24.
inline float unit_open(uint32_t bits) {
  const float u =
      add_exact(mul_exact(static_cast<float>(static_cast<int32_t>(bits >> 1)), 0x1p-31f), 0x1p-33f);
  return u > 1.0f - 0x1p-24f ? 1.0f - 0x1p-24f : u;
}
inline double unit_open(uint64_t bits) {
  return double_of((bits >> 12) | 0x3FF0000000000000ull) - (1.0 - 0x1p-53);
}

COGRAD_KERNEL(uniform, RandomArgs, 256) {
  constexpr int kBits = is_same<T, Half> ? 11 : is_same<T, BFloat16> ? 8 : 24;
  each_block(a, [&](int64_t group, int b, PhiloxWords x) {
    if constexpr (kDouble) {
      for (int k = 0; k < 2; ++k) {
        const uint64_t bits = pair(x, k);
        // 52 bits in the mantissa and the last bit.
        const double high = double_of((bits >> 12) | 0x3FF0000000000000ull) - 1.0;
        const double u = high + (bits >> 11 & 1 ? 0x1p-53 : 0.0);
        const double v = add_exact(mul_exact(u, a.b - a.a), a.a);
        put(a, group * 32 + k * 16 + b, static_cast<T>(v < a.top ? v : a.top));
      }
    } else {
      const float width = static_cast<float>(a.b - a.a), low = static_cast<float>(a.a);
      const float top = static_cast<float>(a.top);
      for (int k = 0; k < 4; ++k) {
        const float u = static_cast<float>(static_cast<int32_t>(x.w[k] >> (32 - kBits))) *
                        (1.0f / static_cast<float>(1 << kBits));
        const float v = add_exact(mul_exact(u, width), low);
        put(a, group * 64 + k * 16 + b, element_of(v < top ? v : top));
      }
    }
  });
}

// Sine and cosine of `bits` / 2^32 of a turn. The rest is within an eighth of a turn.
inline void sincos_turn(uint32_t bits, float& sine, float& cosine) {
  const uint32_t q = (bits + 0x20000000u) >> 30;
  const float r = static_cast<float>(static_cast<int32_t>(bits - (q << 30))) * 1.46291808e-9f;
  const float s = sinf(r), c = cosf(r);
  sine = q & 1 ? c : s;
  cosine = q & 1 ? s : c;
  if (q & 2) sine = -sine;
  if ((q + 1) & 2) cosine = -cosine;
}
inline void sincos_turn(uint64_t bits, double& sine, double& cosine) {
  const uint64_t q = (bits + 0x2000000000000000ull) >> 62;
  const double r =
      static_cast<double>(static_cast<int64_t>(bits - (q << 62))) * 3.40612158008655459e-19;
  const double s = sin(r), c = cos(r);
  sine = q & 1 ? c : s;
  cosine = q & 1 ? s : c;
  if (q & 2) sine = -sine;
  if ((q + 1) & 2) cosine = -cosine;
}

// Box-Muller.
COGRAD_KERNEL(normal, RandomArgs, 256) {
  each_block(a, [&](int64_t group, int b, PhiloxWords x) {
    if constexpr (kDouble) {
      double s, c;
      const double r = sqrt(log(unit_open(pair(x, 0))) * -2.0);
      sincos_turn(pair(x, 1), s, c);
      put(a, group * 32 + b, static_cast<T>(add_exact(mul_exact(c * r, a.b), a.a)));
      put(a, group * 32 + 16 + b, static_cast<T>(add_exact(mul_exact(s * r, a.b), a.a)));
    } else {
      const float std = static_cast<float>(a.b), mean = static_cast<float>(a.a);
      for (int k = 0; k < 2; ++k) {
        float s, c;
        const float r = sqrtf(logf(unit_open(x.w[2 * k])) * -2.0f);
        sincos_turn(x.w[2 * k + 1], s, c);
        const int64_t at = group * 64 + k * 32 + b;
        put(a, at, element_of(add_exact(mul_exact(c * r, std), mean)));
        put(a, at + 16, element_of(add_exact(mul_exact(s * r, std), mean)));
      }
    }
  });
}

COGRAD_KERNEL(exponential, RandomArgs, 256) {
  each_block(a, [&](int64_t group, int b, PhiloxWords x) {
    if constexpr (kDouble) {
      for (int k = 0; k < 2; ++k)
        put(a, group * 32 + k * 16 + b, static_cast<T>(-log(unit_open(pair(x, k))) / a.a));
    } else {
      for (int k = 0; k < 4; ++k)
        put(a, group * 64 + k * 16 + b,
            element_of(-logf(unit_open(x.w[k])) / static_cast<float>(a.a)));
    }
  });
}

template <class V>
inline T integer_element(int64_t v) {
  if constexpr (is_float<compute_t<V>>)
    return element_of(static_cast<double>(v));
  else
    return static_cast<T>(v);
}
// 64 random bits, scaled by range; a range of 0 means 2^64.
COGRAD_KERNEL(integers, RandomArgs, 256) {
  each_block(a, [&](int64_t group, int b, PhiloxWords x) {
    for (int k = 0; k < 2; ++k) {
      const uint64_t bits = pair(x, k);
      const uint64_t v =
          a.range == 0 ? bits : static_cast<uint64_t>(a.low) + __umul64hi(bits, a.range);
      put(a, group * 32 + k * 16 + b, integer_element<T>(static_cast<int64_t>(v)));
    }
  });
}

COGRAD_KERNEL(bernoulli, RandomArgs, 256) {
  each_block(a, [&](int64_t group, int b, PhiloxWords x) {
    for (int k = 0; k < 4; ++k)
      put(a, group * 64 + k * 16 + b,
          element_of(static_cast<int32_t>(!a.never && x.w[k] <= a.last)));
  });
}

// Fisher and Yates: each exchange depends on the ones before it, so one thread of one block makes
// them. The others find the partners of 256 exchanges at a time.
COGRAD_BLOCK_KERNEL(permutation, RandomArgs, 256) {
  COGRAD_SHARED int64_t partners[256];
  int64_t* const out = static_cast<int64_t*>(a.out);
  const int t = static_cast<int>(threadIdx.x);
  const uint64_t seed = a.base == nullptr ? a.seed : a.base[0];
  const uint64_t offset = a.base == nullptr ? a.offset : a.base[1] + a.offset;
  for (int64_t i = t; i < a.n; i += 256) out[i] = i;
  for (int64_t last = a.n - 1; last > 0; last -= 256) {
    const int64_t i = last - t;
    if (i > 0) {
      const int64_t e = i % 32;
      const PhiloxWords x =
          philox(seed, offset + static_cast<uint64_t>(i / 32 * kGroupBlocks + e % 16));
      partners[t] =
          static_cast<int64_t>(__umul64hi(pair(x, e < 16 ? 0 : 1), static_cast<uint64_t>(i) + 1));
    }
    __syncthreads();
    for (int k = 0; t == 0 && k < 256 && last - k > 0; ++k) {
      const int64_t moved = out[last - k];
      out[last - k] = out[partners[k]];
      out[partners[k]] = moved;
    }
    __syncthreads();
  }
}

#if defined(PROB)
COGRAD_KERNEL(bernoulli_each, RandomArgs, 256) {
  each_block(a, [&](int64_t group, int b, PhiloxWords x) {
    for (int k = 0; k < 4; ++k) {
      const int64_t i = group * 64 + k * 16 + b;
      if (i >= a.n) continue;
      const double p = static_cast<double>(load(static_cast<const PROB*>(a.p), i));
      put(a, i, element_of(static_cast<int32_t>(static_cast<double>(x.w[k]) * 0x1p-32 < p)));
    }
  });
}
#endif

}  // namespace cograd::device
