// SPDX-License-Identifier: BSD-3-Clause
// Declares the loops of random_mt.cpp, with one copy per instruction set.
#pragma once
#include <cstdint>

namespace cograd::kernels {

struct MtLoops {
  void (*refill)(uint32_t* state);  // 624 words
  void (*temper)(const uint32_t* state, int64_t n, uint32_t* out);
  // Compute width * u + lo in one rounding; u has 24 or 53 bits.
  void (*uniform_float)(const uint32_t* words, int64_t n, float lo, float width, float* out);
  void (*uniform_double)(const uint32_t* words, int64_t n, double lo, double width, double* out);
  // Turn groups of 16 uniform numbers into normal ones: u[j] and u[j + 8] make the cosine and the
  // sine.
  void (*normal_float)(const float* u, int64_t groups, float mean, float std, float* out);
  void (*normal_double)(const double* u, int64_t groups, double mean, double std, double* out);
  // Writes 1 where u with 53 bits is below p.
  void (*below)(const uint32_t* words, int64_t n, double p, uint8_t* out);
};
const MtLoops& mt_loops();

}  // namespace cograd::kernels
