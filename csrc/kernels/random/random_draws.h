// SPDX-License-Identifier: BSD-3-Clause
// Draws with parameters that differ by element, some by rejection. Each element has a separate
// stream, so its value depends only on (seed, offset, i) and its parameters, not on the threads.
// Alternatively all elements are drawn in order from torch's stream.
#pragma once
#include "kernels/random/random.h"
#include "kernels/random/random_mt.h"

namespace cograd::kernels {

struct DrawSource {
  PhiloxState philox{};
  MtStream* torch = nullptr;  // if not null, it is used instead
};

// All arrays are contiguous and have one floating dtype t; each call uses n blocks of the
// generator. Draws gamma variables with scale 1, at least the smallest normal number of the dtype.
void draw_gamma(DType t, void* out, const void* alpha, int64_t n, const DrawSource& s);
// Draws rows of `size` positive numbers that sum to 1.
void draw_dirichlet(DType t, void* out, const void* alpha, int64_t rows, int64_t size,
                    const DrawSource& s);
// The caller checks that rate >= 0.
void draw_poisson(DType t, void* out, const void* rate, int64_t n, const DrawSource& s);
// Accepts any count and chance: counts below 1 give 0, chances are clipped to [0, 1].
void draw_binomial(DType t, void* out, const void* count, const void* chance, int64_t n,
                   const DrawSource& s);
// Draws angles in [-pi, pi] with density proportional to exp(concentration * cos(angle)).
void draw_von_mises(DType t, void* out, const void* concentration, int64_t n, const DrawSource& s);

// These compute the derivative of a sample with respect to a parameter, at a fixed value of its
// distribution function. This one computes dx / dalpha of x ~ Gamma(alpha, 1).
void gamma_sample_grad(DType t, void* out, const void* alpha, const void* x, int64_t n);
// Computes dx / dalpha / (1 - x) of x ~ Beta(alpha, total - alpha).
void dirichlet_sample_grad(DType t, void* out, const void* x, const void* alpha, const void* total,
                           int64_t n);

}  // namespace cograd::kernels
