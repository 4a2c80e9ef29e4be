// SPDX-License-Identifier: BSD-3-Clause
// The C++ type of a floating dtype.
#pragma once
#include "cograd/dtype.h"

namespace cograd::kernels {

// f(TypeTag<T>()) for the T of a floating dtype, which `t` is.
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

// Half types are rounded by way of float.
template <class T>
T rounded(double v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T(static_cast<float>(v));
  else
    return static_cast<T>(v);
}

}  // namespace cograd::kernels
