// SPDX-License-Identifier: BSD-3-Clause
// Piecewise polynomials on equal pieces of an interval.
#pragma once

namespace cograd::kernels::tables {

template <int kDegree>
struct Piecewise {
  const double* values;  // kDegree + 1 coefficients per piece, for powers of u in [-1, 1]
  int pieces;
  double low, scale;  // a piece is 1 / scale wide

  // Sums even and odd powers separately: two chains of half the length.
  double operator()(double t) const noexcept {
    static_assert(kDegree % 2 == 1);
    const double at = (t - low) * scale;
    int piece = static_cast<int>(at);
    if (piece >= pieces) piece = pieces - 1;
    if (!(at > 0)) piece = 0;
    const double u = 2 * (at - piece) - 1, square = u * u;
    const double* v = values + piece * (kDegree + 1);
    double even = v[kDegree - 1], odd = v[kDegree];
    for (int k = kDegree - 3; k >= 0; k -= 2) {
      even = even * square + v[k];
      odd = odd * square + v[k + 1];
    }
    return odd * u + even;
  }
};

}  // namespace cograd::kernels::tables
