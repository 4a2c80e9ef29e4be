// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/elementwise/frexp.h"

#include <cmath>

#include "kernels/core/floating.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

void frexp(DType t, const void* x, int64_t n, void* mantissa, int32_t* exponent) {
  COGRAD_SLOT(frexp, t, x, n, mantissa, exponent);
  dispatch_floating(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = static_cast<const T*>(x);
    T* m = static_cast<T*>(mantissa);
    parallel_for(0, n, 16384, [=](int64_t lo, int64_t hi) {
      for (; lo < hi; ++lo) {
        int power = 0;
        const auto v = static_cast<double>(from[lo]);
        const double part = std::frexp(v, &power);
        if constexpr (std::is_same_v<T, double>)
          m[lo] = part;
        else
          m[lo] = static_cast<T>(static_cast<float>(part));
        exponent[lo] = std::isfinite(v) ? power : 0;
      }
    });
  });
}

}  // namespace cograd::kernels
