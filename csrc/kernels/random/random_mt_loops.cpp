// SPDX-License-Identifier: BSD-3-Clause
// MT19937's recurrence and the conversions of its words; compiled once per instruction set.
#include "kernels/random/random_mt_loops.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/core/isa.h"
#include "kernels/core/vecmath.h"

namespace cograd::kernels::COGRAD_ISA {

MtLoops mt_loops();

namespace {

constexpr int kN = 624;
constexpr int kM = 397;

uint32_t twist(uint32_t a, uint32_t b, uint32_t far) {
  const uint32_t y = (a & 0x80000000u) | (b & 0x7FFFFFFFu);
  return far ^ (y >> 1) ^ ((0u - (b & 1u)) & 0x9908B0DFu);
}

void refill(uint32_t* s) {
  for (int i = 0; i < kN - kM; ++i) s[i] = twist(s[i], s[i + 1], s[i + kM]);
#pragma GCC ivdep
  for (int i = kN - kM; i < kN - 1; ++i) s[i] = twist(s[i], s[i + 1], s[i - (kN - kM)]);
  s[kN - 1] = twist(s[kN - 1], s[0], s[kM - 1]);
}

void temper(const uint32_t* s, int64_t n, uint32_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t y = s[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680u;
    y ^= (y << 15) & 0xEFC60000u;
    out[i] = y ^ (y >> 18);
  }
}

void uniform_float(const uint32_t* w, int64_t n, float lo, float width, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<int32_t>(w[i] & 0xFFFFFFu);
    out[i] = std::fma(static_cast<float>(bits) * 0x1p-24f, width, lo);
  }
}

double unit(const uint32_t* w, int64_t i) {
  const uint64_t bits = (uint64_t{w[2 * i]} << 32 | w[2 * i + 1]) & ((uint64_t{1} << 53) - 1);
  return static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-53;
}

void uniform_double(const uint32_t* w, int64_t n, double lo, double width, double* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = std::fma(unit(w, i), width, lo);
}

// Rounds the turn before its cosine is computed, as torch does.
template <class T>
void normals(const T* u, int64_t groups, T mean, T std, T* out) {
  constexpr int64_t kMost = 32;
  T a[8 * kMost], b[8 * kMost], radius[8 * kMost];
  for (int64_t at = 0; at < groups; at += kMost) {
    const int64_t n = std::min(kMost, groups - at);
    const T* from = u + 16 * at;
    T* to = out + 16 * at;
    for (int64_t g = 0; g < n; ++g) {
      std::copy_n(from + 16 * g, 8, a + 8 * g);
      std::copy_n(from + 16 * g + 8, 8, b + 8 * g);
    }
#pragma omp simd
    for (int64_t i = 0; i < 8 * n; ++i) {
      radius[i] = std::sqrt(T(-2) * log(T(1) - a[i])) * std;
      b[i] *= static_cast<T>(2 * std::numbers::pi);
    }
    // Use two loops: g++ would merge sine and cosine into one call, which has no vector form.
#pragma omp simd
    for (int64_t i = 0; i < 8 * n; ++i) a[i] = radius[i] * cos(b[i]) + mean;
#pragma omp simd
    for (int64_t i = 0; i < 8 * n; ++i) b[i] = radius[i] * sin(b[i]) + mean;
    for (int64_t g = 0; g < n; ++g) {
      std::copy_n(a + 8 * g, 8, to + 16 * g);
      std::copy_n(b + 8 * g, 8, to + 16 * g + 8);
    }
  }
}

void normal_float(const float* u, int64_t groups, float mean, float std, float* out) {
  normals(u, groups, mean, std, out);
}
void normal_double(const double* u, int64_t groups, double mean, double std, double* out) {
  normals(u, groups, mean, std, out);
}

void below(const uint32_t* w, int64_t n, double p, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = unit(w, i) < p ? 1 : 0;
}

}  // namespace

MtLoops mt_loops() {
  return {refill, temper, uniform_float, uniform_double, normal_float, normal_double, below};
}

}  // namespace cograd::kernels::COGRAD_ISA
