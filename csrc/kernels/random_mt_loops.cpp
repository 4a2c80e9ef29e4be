// SPDX-License-Identifier: BSD-3-Clause
// MT19937's recurrence and what its words are turned into; compiled once per instruction set.
#include "kernels/random_mt_loops.h"

#include <cmath>

#include "kernels/isa.h"

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

void below(const uint32_t* w, int64_t n, double p, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = unit(w, i) < p ? 1 : 0;
}

}  // namespace

MtLoops mt_loops() { return {refill, temper, uniform_float, uniform_double, below}; }

}  // namespace cograd::kernels::COGRAD_ISA
