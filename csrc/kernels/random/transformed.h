// SPDX-License-Identifier: BSD-3-Clause
// Distributions that are functions of uniform or normal numbers, for any real dtype.
#pragma once
#include "kernels/random/random_mt.h"

namespace cograd::kernels {

enum class DrawKind : uint8_t {
  LogNormal,  // exp(a + b z) of a normal z
  Geometric,  // trials up to the first success, each with the chance 1 - exp(a); b = 1 / a
  Cauchy,     // a + b tan(pi (u - 1/2)) of a uniform u
};
struct DrawRule {
  DrawKind kind;
  double a, b;
};

// Computes n numbers from as many draws u, uniform in [0, 1) or normal.
void transform_draws(DType t, const DrawRule& rule, const double* u, int64_t n, void* out);
// Draws them from torch's stream and uses torch's formulas.
void mt_transformed(DType t, void* out, int64_t n, MtStream& s, const DrawRule& rule);

// Returns true if all n elements of a real dtype are in [low, high]; else `bad` receives the first
// other one.
bool all_between(DType t, const void* x, int64_t n, double low, double high, double* bad);
// Returns the first of the rows of w [rows, n] with fewer than `needed` positive elements, or
// `rows`; `positive` receives how many that one has.
int64_t scarce_row(DType t, const void* w, int64_t rows, int64_t n, int64_t needed,
                   int64_t* positive);

}  // namespace cograd::kernels
