// SPDX-License-Identifier: BSD-3-Clause
// The arguments of random fills, for the host and for kernels' text, and the generator's words.
#pragma once
#include "cuda/args/late_args.h"

namespace cograd::device {

// Philox blocks come in groups of 16 (kernels/random/random_loops.h).
inline constexpr int kGroupBlocks = 16;

struct RandomArgs {
  void* out;
  const void* p;  // bernoulli_each: probabilities
  long long n, groups;
  unsigned long long seed, offset;
  const unsigned long long*
      base;     // of a captured kernel: the seed, and what the offset counts from
  double a, b;  // uniform: lo and hi; normal: mean and std; exponential: rate
  double top;   // uniform: the largest value
  unsigned long long range;
  long long low;
  unsigned last;  // bernoulli: words up to this hit
  int never;
};
struct DrawArgs {
  const double* u;
  void* out;
  long long n;
  int kind;
  double a, b;
};
// Draws with parameters a and b of each element.
struct EachDrawArgs {
  void* out;
  const void *a, *b;
  double* logs;  // of Dirichlet's rows
  long long n, rows;
  unsigned long long seed, offset;
  const unsigned long long* base;  // as in RandomArgs
};
// The derivative of a sample x of a gamma or (with `total`) a beta distribution.
struct SampleGradArgs {
  void* out;
  const void *x, *alpha, *total;
  long long n;
};
struct CheckDrawArgs {
  const void* x;
  unsigned long long* found;  // the first bad element or row
  long long n, rows, needed;
  double low, high;
  LateError* late;  // of a captured check, which reports instead
  const char* op;
};
struct MultinomialArgs {
  const void* probs;
  const double* u;
  double* arrivals;  // without replacement: receives the arrival times
  long long* out;
  long long rows, n, samples;
};

struct PhiloxWords {
  unsigned w[4];
};
// Returns block number `block` of the stream of a seed. Draws by rejection count their own blocks
// of an element by `first`, from 1 on.
inline PhiloxWords philox(unsigned long long seed, unsigned long long block, unsigned first = 0) {
  unsigned c0 = static_cast<unsigned>(block), c1 = static_cast<unsigned>(block >> 32), c2 = first,
           c3 = 0, k0 = static_cast<unsigned>(seed), k1 = static_cast<unsigned>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    c0 = static_cast<unsigned>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<unsigned>(p1);
    c2 = static_cast<unsigned>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<unsigned>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace cograd::device
