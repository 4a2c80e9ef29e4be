// SPDX-License-Identifier: BSD-3-Clause
// Maps floating dtypes to C++ types.
#pragma once
#include "cograd/dtype.h"

namespace cograd::kernels {

// Calls f(TypeTag<T>()) with the C++ type T of `t`, which must be a floating dtype.
template <class F>
decltype(auto) dispatch_floating(DType t, F&& f) {
  switch (t) {
    case DType::Float16:
      return f(TypeTag<Half>{});
    case DType::BFloat16:
      return f(TypeTag<BFloat16>{});
    case DType::Float32:
      return f(TypeTag<float>{});
    default:
      return f(TypeTag<double>{});
  }
}

// Rounds to T. 16-bit types are rounded through float.
template <class T>
T rounded(double v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T(static_cast<float>(v));
  else
    return static_cast<T>(v);
}

}  // namespace cograd::kernels
