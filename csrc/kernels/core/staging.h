// SPDX-License-Identifier: BSD-3-Clause
// Turns a kernel over contiguous arrays of its compute type into a LoopFn over strides and 16-bit
// floats, through blocks in the first-level cache. Only the per-ISA kernel files include this.
#pragma once
#include <stdint.h>
#include <string.h>

#include "kernels/core/loops.h"
#if defined(__F16C__)
#include <immintrin.h>
#endif

// See vecmath.h for the reason for the unnamed namespace.
namespace cograd::kernels {
namespace {

enum class Form : uint8_t { plain, half, bfloat };

inline constexpr int kStages = 5;
inline constexpr int64_t kBlock = 512;

// Describes the memory of a kernel's operands; ops[0] is the output.
struct Layout {
  int nops;
  int pad;  // the kernel only accepts multiples of this many elements
  int size[kStages];
  Form form[kStages];
};

using KernelFn = void (*)(char* const* ptrs, int64_t n, const void* params);

inline float half_to_float(uint16_t h) {
  const uint32_t magnitude = static_cast<uint32_t>(h & 0x7FFFu) << 13;
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  // 2^112 moves the exponent to its position and normalises subnormals.
  const float scaled = __builtin_bit_cast(float, magnitude) * 0x1p112f;
  const uint32_t special = 0x7F800000u | (magnitude & 0x007FFFFFu);
  const uint32_t bits = (h & 0x7C00u) == 0x7C00u ? special : __builtin_bit_cast(uint32_t, scaled);
  return __builtin_bit_cast(float, bits | sign);
}
inline uint16_t float_to_half(float f) {
  const uint32_t all = __builtin_bit_cast(uint32_t, f);
  const uint32_t u = all & 0x7FFFFFFFu;
  const uint32_t sign = (all >> 16) & 0x8000u;
  // Adding 0.5 aligns the mantissa of a subnormal half, rounded to even.
  const float aligned = __builtin_bit_cast(float, u) + 0.5f;
  const uint32_t small = __builtin_bit_cast(uint32_t, aligned) - 0x3F000000u;
  const uint32_t normal = (u + 0xC8000FFFu + ((u >> 13) & 1u)) >> 13;
  const uint32_t nan = 0x7E00u | ((u >> 13) & 0x3FFu);
  uint32_t r = u < 0x38800000u ? small : normal;
  r = u >= 0x477FF000u ? 0x7C00u : r;
  r = u > 0x7F800000u ? nan : r;
  return static_cast<uint16_t>(r | sign);
}
inline float bfloat_to_float(uint16_t h) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(h) << 16);
}
inline uint16_t float_to_bfloat(float f) {
  const uint32_t u = __builtin_bit_cast(uint32_t, f);
  const uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((u & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC0u : rounded);
}

void widen(float* out, const uint16_t* in, int64_t n, Form form) {
  int64_t i = 0;
  if (form == Form::bfloat) {
    for (; i < n; ++i) out[i] = bfloat_to_float(in[i]);
    return;
  }
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    _mm512_storeu_ps(out + i, _mm512_maskz_cvtph_ps(0xFFFF, h));
  }
#endif
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(h));
  }
#endif
  for (; i < n; ++i) out[i] = half_to_float(in[i]);
}
void narrow(uint16_t* out, const float* in, int64_t n, Form form) {
  int64_t i = 0;
  if (form == Form::bfloat) {
    for (; i < n; ++i) out[i] = float_to_bfloat(in[i]);
    return;
  }
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i h =
        _mm512_maskz_cvtps_ph(0xFFFF, _mm512_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), h);
  }
#endif
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), h);
  }
#endif
  for (; i < n; ++i) out[i] = float_to_half(in[i]);
}

// Copies unaligned elements: a view may start at any byte of a mapped buffer.
template <class U>
void move_strided(char* out, int64_t out_stride, const char* in, int64_t in_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    U u;
    memcpy(&u, in + i * in_stride, sizeof(U));
    memcpy(out + i * out_stride, &u, sizeof(U));
  }
}
void move_elements(char* out, int64_t out_stride, const char* in, int64_t in_stride, int64_t n,
                   int size) {
  if (out_stride == size && in_stride == size) {
    memcpy(out, in, static_cast<size_t>(n * size));
    return;
  }
  switch (size) {
    case 1:
      return move_strided<uint8_t>(out, out_stride, in, in_stride, n);
    case 2:
      return move_strided<uint16_t>(out, out_stride, in, in_stride, n);
    case 4:
      return move_strided<uint32_t>(out, out_stride, in, in_stride, n);
    case 16:
      return move_strided<Complex<double>>(out, out_stride, in, in_stride, n);
    default:
      return move_strided<uint64_t>(out, out_stride, in, in_stride, n);
  }
}

struct Stages {
  alignas(64) char block[kStages][kBlock * 16];
  alignas(64) uint16_t narrow[kBlock];
};

// Loads elements i.. of operand k, in the compute type, into its block.
void load_block(Stages& s, const Layout& l, int k, const char* from, int64_t stride, int64_t n) {
  char* to = s.block[k];
  if (l.form[k] == Form::plain) {
    move_elements(to, l.size[k], from, stride, n, l.size[k]);
    return;
  }
  const char* packed = from;
  if (stride != 2) {
    packed = reinterpret_cast<char*>(s.narrow);
    move_elements(reinterpret_cast<char*>(s.narrow), 2, from, stride, n, 2);
  }
  widen(reinterpret_cast<float*>(to), reinterpret_cast<const uint16_t*>(packed), n, l.form[k]);
}
void store_block(Stages& s, const Layout& l, char* to, int64_t stride, int64_t n) {
  if (l.form[0] == Form::plain) {
    move_elements(to, stride, s.block[0], l.size[0], n, l.size[0]);
    return;
  }
  uint16_t* packed = stride == 2 ? reinterpret_cast<uint16_t*>(to) : s.narrow;
  narrow(packed, reinterpret_cast<const float*>(s.block[0]), n, l.form[0]);
  if (stride != 2) move_elements(to, stride, reinterpret_cast<char*>(s.narrow), 2, n, 2);
}
// Repeats element 0 from n up to `padded`, so that the padding holds ordinary values.
void pad_block(Stages& s, const Layout& l, int k, int64_t n, int64_t padded) {
  const int size = l.form[k] == Form::plain ? l.size[k] : 4;
  move_elements(s.block[k] + n * size, size, s.block[k], 0, padded - n, size);
}

// If number_at is not 0, that operand has stride 0 and 16 bits, and `number` replaces it.
__attribute__((noinline, noclone)) void run_staged(KernelFn kernel, const Layout& l,
                                                   char* const* ptrs, const int64_t* strides,
                                                   int64_t n, const void* params, int number_at = 0,
                                                   float number = 0) {
  bool direct[kStages];
  for (int k = 0; k < l.nops; ++k) direct[k] = l.form[k] == Form::plain && strides[k] == l.size[k];
  Stages s;
  for (int k = 1; k < l.nops; ++k) {
    if (strides[k] != 0) continue;
    const int64_t filled = n < kBlock ? n : kBlock;
    load_block(s, l, k, ptrs[k], 0, filled);
    float* block = reinterpret_cast<float*>(s.block[k]);
    for (int64_t i = 0; k == number_at && i < filled; ++i) block[i] = number;
  }
  char* p[kStages];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    const int64_t padded = (m + l.pad - 1) / l.pad * l.pad;
    for (int k = 1; k < l.nops; ++k) {
      p[k] = s.block[k];
      if (direct[k] && padded == m) {
        p[k] = ptrs[k] + i * strides[k];
      } else if (strides[k] != 0) {
        load_block(s, l, k, ptrs[k] + i * strides[k], strides[k], m);
      }
      if (padded != m) pad_block(s, l, k, m, padded);
    }
    const bool in_place = direct[0] && padded == m;
    p[0] = in_place ? ptrs[0] + i * strides[0] : s.block[0];
    kernel(p, padded, params);
    if (!in_place) store_block(s, l, ptrs[0] + i * strides[0], strides[0], m);
  }
}

template <class U>
void load_padded(char* to, const char* from, int64_t n, int64_t padded) {
  U first;
  memcpy(&first, from, sizeof(U));
  for (int64_t i = 0; i < padded; ++i) memcpy(to + i * int64_t{sizeof(U)}, &first, sizeof(U));
  memcpy(to, from, static_cast<size_t>(n) * sizeof(U));
}

// Runs a kernel on fewer elements than it accepts at once, where all operands are contiguous and in
// the compute type: a small tensor, or what is left of a large one. Does what run_staged does.
__attribute__((noinline, noclone)) void run_tail(KernelFn kernel, const Layout& l,
                                                 char* const* ptrs, int64_t n, const void* params) {
  alignas(64) char block[kStages][64 * sizeof(Complex<double>)];
  char* p[kStages];
  p[0] = block[0];
  for (int k = 1; k < l.nops; ++k) {
    p[k] = block[k];
    if (l.size[k] == 4)
      load_padded<uint32_t>(p[k], ptrs[k], n, l.pad);
    else if (l.size[k] == 8)
      load_padded<uint64_t>(p[k], ptrs[k], n, l.pad);
    else if (l.size[k] == 16)
      load_padded<Complex<double>>(p[k], ptrs[k], n, l.pad);
    else
      load_padded<uint8_t>(p[k], ptrs[k], n, l.pad);
  }
  kernel(p, l.pad, params);
  memcpy(ptrs[0], block[0], static_cast<size_t>(n * l.size[0]));
}

// The LoopFn of a kernel: passes contiguous data directly, everything else through blocks.
template <KernelFn kKernel, const Layout& kLayout>
void loop(char* const* ptrs, const int64_t* strides, int64_t n, const void* params) {
  bool plain = true;
  for (int k = 0; k < kLayout.nops; ++k)
    plain &= kLayout.form[k] == Form::plain && strides[k] == kLayout.size[k];
  if (!plain) return run_staged(kKernel, kLayout, ptrs, strides, n, params);
  const int64_t whole = n & -int64_t{kLayout.pad};
  if (whole != 0) kKernel(ptrs, whole, params);
  if (whole == n) return;
  char* tail[kStages];
  for (int k = 0; k < kLayout.nops; ++k) tail[k] = ptrs[k] + whole * kLayout.size[k];
  run_tail(kKernel, kLayout, tail, n - whole, params);
}

}  // namespace
}  // namespace cograd::kernels
