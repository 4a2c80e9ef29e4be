// SPDX-License-Identifier: BSD-3-Clause
// Mantissas and exponents of dtype -DCOGRAD_T=.
#include "cuda/args/frexp_args.h"
#include "exact.h"

namespace cograd::device {

COGRAD_KERNEL(split_floats, FrexpArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const double v = static_cast<double>(load(static_cast<const COGRAD_T*>(a.x), i));
    int power = 0;
    const double part = ::frexp(v, &power);
    static_cast<COGRAD_T*>(a.mantissa)[i] = rounded_to<COGRAD_T>(part);
    a.exponent[i] = v - v == 0 ? power : 0;  // that of inf and NaN is not defined
  }
}

}  // namespace cograd::device
