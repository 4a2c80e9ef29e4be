// SPDX-License-Identifier: BSD-3-Clause
// Ranges of dtype -DTYPE=, computed in double or in the arithmetic of TYPE, as on the CPU.
#include "cuda/args/moves_args.h"
#include "cuda/text/exact.h"

namespace cograd::device {

using T = TYPE;

COGRAD_KERNEL(arange, RangeArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size())
    static_cast<T*>(a.out)[i] =
        rounded_to<T>(add_exact(a.start, mul_exact(static_cast<double>(i), a.step)));
}

// The i-th value from the nearer end.
inline double evenly(const RangeArgs& a, int64_t i) {
  return i < a.n / 2 || a.n == 1
             ? add_exact(a.start, mul_exact(a.step, static_cast<double>(i)))
             : add_exact(a.end, -mul_exact(a.step, static_cast<double>(a.n - 1 - i)));
}
COGRAD_KERNEL(linspace_doubles, RangeArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size())
    static_cast<T*>(a.out)[i] = rounded_to<T>(evenly(a, i));
}
COGRAD_KERNEL(logspace, RangeArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size())
    static_cast<T*>(a.out)[i] = rounded_to<T>(pow(a.base, evenly(a, i)));
}

// Computes from + step * i as torch does: rounded once, but 16-bit floats also round the product.
inline float counted_from(float from, float step, float i) { return fmaf(step, i, from); }
inline double counted_from(double from, double step, double i) { return fma(step, i, from); }
template <class H>
inline H counted_from(H from, H step, H i) {
  const H product = H(static_cast<float>(step) * static_cast<float>(i));
  return H(static_cast<float>(from) + static_cast<float>(product));
}
template <class V>
inline V spaced(const RangeArgs& a, int64_t i) {
  if constexpr (sizeof(V) >= 2 && (is_float<V> || is_float<compute_t<V>>)) {
    if (a.n == 1 || i < a.n / 2)
      return counted_from(V(a.start), V(a.step), rounded_to<V>(static_cast<double>(i)));
    return counted_from(V(a.end), V(-a.step), rounded_to<V>(static_cast<double>(a.n - 1 - i)));
  } else {
    return V(0);
  }
}
COGRAD_KERNEL(linspace, RangeArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size())
    static_cast<T*>(a.out)[i] = spaced<T>(a, i);
}

}  // namespace cograd::device
