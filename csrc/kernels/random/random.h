// SPDX-License-Identifier: BSD-3-Clause
// Counter-based random numbers: Philox4x32-10. Element i depends only on (seed, offset, i).
#pragma once
#include <array>
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// `offset` counts the blocks of 128 random bits already used under `seed`. With `base`, a captured
// kernel reads the seed and what it adds to the offset from there, on the device.
struct PhiloxState {
  uint64_t seed = 0;
  uint64_t offset = 0;
  const uint64_t* base = nullptr;
};

// Runs the raw generator: ten rounds over a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Every fill writes n contiguous elements and returns the number of blocks to add to the offset.
// random_uniform draws from [lo, hi), with 24 (float16: 11, bfloat16: 8, float64: 53) random bits.
uint64_t random_uniform(DType t, void* out, int64_t n, PhiloxState s, double lo, double hi);
uint64_t random_normal(DType t, void* out, int64_t n, PhiloxState s, double mean, double std);
// Draws with density rate * exp(-rate * x), x > 0.
uint64_t random_exponential(DType t, void* out, int64_t n, PhiloxState s, double rate);
// Draws integers in [lo, hi) for any dtype. hi - lo is read as unsigned; 0 means 2^64.
uint64_t random_int(DType t, void* out, int64_t n, PhiloxState s, int64_t lo, int64_t hi);
// Writes 1 with probability p, else 0; any dtype.
uint64_t random_bernoulli(DType t, void* out, int64_t n, PhiloxState s, double p);
// Does the same with a contiguous array of probabilities of floating dtype tp.
uint64_t random_bernoulli_each(DType t, void* out, int64_t n, PhiloxState s, DType tp,
                               const void* p);
// Writes a random permutation of 0..n-1.
uint64_t random_permutation(int64_t* out, int64_t n, PhiloxState s);
// Draws `samples` column numbers per row of probs[rows, n] (floating, non-negative, not
// normalised). Without replacement, samples must not exceed the number of non-zero entries. The
// caller checks both.
uint64_t random_multinomial(DType t, const void* probs, int64_t rows, int64_t n, int64_t samples,
                            bool replacement, int64_t* out, PhiloxState s);

}  // namespace cograd::kernels
