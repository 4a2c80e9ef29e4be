// SPDX-License-Identifier: BSD-3-Clause
// Declares Philox words and their transformations, with one copy per instruction set.
#pragma once
#include <cstdint>

namespace cograd::kernels {

// Blocks are generated in groups of 16: word k of block b of a group is entry 16 * k + b, so that
// neighbouring lanes hold neighbouring blocks. This order is part of the generator's definition.
inline constexpr int64_t kGroupBlocks = 16;
inline constexpr int64_t kGroupWords = 64;

// Every function handles whole groups: 64 floats, 32 doubles or 32 integers per group of words.
struct RandomLoops {
  void (*words)(uint64_t seed, uint64_t first_block, int64_t groups, uint32_t* out);
  // Writes numbers in [0, 1) with `bits` (at most 24) random bits; uniform_double has 53.
  void (*uniform_float)(const uint32_t* words, int64_t groups, int bits, float* out);
  void (*uniform_double)(const uint32_t* words, int64_t groups, double* out);
  void (*normal_float)(const uint32_t* words, int64_t groups, float* out);
  void (*normal_double)(const uint32_t* words, int64_t groups, double* out);
  // Write -log(u) for u in (0, 1).
  void (*exponential_float)(const uint32_t* words, int64_t groups, float* out);
  void (*exponential_double)(const uint32_t* words, int64_t groups, double* out);
  // Writes 64 random bits per element.
  void (*bits64)(const uint32_t* words, int64_t groups, uint64_t* out);
  // Scales bits64 to [lo, lo + range), range < 2^32.
  void (*below)(const uint32_t* words, int64_t groups, uint32_t range, int64_t lo, int64_t* out);
  // Writes 1 where a word is at most `last`, else 0.
  void (*at_most)(const uint32_t* words, int64_t groups, uint32_t last, uint8_t* out);
};
const RandomLoops& random_loops();

}  // namespace cograd::kernels
