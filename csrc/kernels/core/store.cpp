// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/core/store.h"

#include "kernels/core/floating.h"

namespace cograd::kernels {

void store_doubles(DType t, const double* values, int64_t n, void* out) {
  dispatch_values(t, [=](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = static_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (is_complex_type<T>)
        to[i] = T(rounded<typename T::value_type>(values[i]));
      else
        to[i] = rounded<T>(values[i]);
    }
  });
}

}  // namespace cograd::kernels
