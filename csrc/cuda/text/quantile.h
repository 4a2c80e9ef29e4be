// SPDX-License-Identifier: BSD-3-Clause
// The two elements of a sorted row that form each quantile. -DTYPE= is float or double.
#include "cuda/args/search_args.h"
#include "exact.h"

namespace cograd::device {

using T = TYPE;

COGRAD_KERNEL(quantile_positions, QuantileArgs, 256) {
  const T* x = static_cast<const T*>(a.x);
  for (int64_t r = grid_index(); r < a.rows; r += grid_size()) {
    const int64_t o = r / a.inner, i = r % a.inner, base = o * a.n * a.inner + i;
    // NaN sorts last: bisection finds the number of other elements.
    int64_t known = 0, high = a.n;
    while (known < high) {
      const int64_t middle = known + (high - known) / 2;
      const T v = x[base + a.order[base + middle * a.inner] * a.inner];
      if (v == v)
        known = middle + 1;
      else
        high = middle;
    }
    const bool poisoned = known == 0 || (known < a.n && !a.ignore_nan);
    static_cast<T*>(a.steps)[r] = static_cast<T>(poisoned ? 0 : known - 1);
    for (int64_t k = 0; k < a.count; ++k) {
      const int64_t to = (o * a.count + k) * a.inner + i;
      const double rank = poisoned ? static_cast<double>(known == 0 && a.ignore_nan ? 0 : a.n - 1)
                                   : mul_exact(a.fractions[k], static_cast<double>(known - 1));
      double below = floor(rank), above = ceil(rank), w = rank - below;
      if (a.mode == 1) above = below;
      if (a.mode == 2) below = above;
      if (a.mode == 4) below = above = rint(rank);
      if (a.mode == 3) w = 0.5;
      if (below == above) w = 0;
      a.low[to] = a.order[base + static_cast<int64_t>(below) * a.inner];
      a.high[to] = a.order[base + static_cast<int64_t>(above) * a.inner];
      static_cast<T*>(a.weight)[to] = static_cast<T>(w);
    }
  }
}

}  // namespace cograd::device
