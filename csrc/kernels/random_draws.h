// SPDX-License-Identifier: BSD-3-Clause
// Draws whose parameters differ by element, some by rejection. Element i has a stream of its own,
// so its value depends only on (seed, offset, i) and its parameters, whatever threads there are; or
// all are drawn one after the other from torch's stream.
#pragma once
#include "kernels/random.h"
#include "kernels/random_mt.h"

namespace cograd::kernels {

struct DrawSource {
  PhiloxState philox{};
  MtStream* torch = nullptr;  // not null: instead
};

// All arrays are contiguous, of one floating dtype t; n blocks of the generator are used.
// Gamma with scale 1, at least the smallest normal number of the dtype.
void draw_gamma(DType t, void* out, const void* alpha, int64_t n, const DrawSource& s);
// Rows of `size` positive numbers that sum to 1.
void draw_dirichlet(DType t, void* out, const void* alpha, int64_t rows, int64_t size,
                    const DrawSource& s);
// rate >= 0; the caller has checked.
void draw_poisson(DType t, void* out, const void* rate, int64_t n, const DrawSource& s);
// Any count and chance: counts below 1 give 0, chances are clipped to [0, 1].
void draw_binomial(DType t, void* out, const void* count, const void* chance, int64_t n,
                   const DrawSource& s);
// Angles in [-pi, pi] with density proportional to exp(concentration * cos(angle)).
void draw_von_mises(DType t, void* out, const void* concentration, int64_t n, const DrawSource& s);

// Of a sample at a fixed level of its distribution function, the derivative by a parameter.
// dx / dalpha of x ~ Gamma(alpha, 1).
void gamma_sample_grad(DType t, void* out, const void* alpha, const void* x, int64_t n);
// dx / dalpha / (1 - x) of x ~ Beta(alpha, total - alpha).
void dirichlet_sample_grad(DType t, void* out, const void* x, const void* alpha, const void* total,
                           int64_t n);

}  // namespace cograd::kernels
