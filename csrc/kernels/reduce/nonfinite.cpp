// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/reduce/nonfinite.h"
#include "tensor/slot.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/floating.h"

namespace cograd::kernels {

namespace {

int64_t offset_of(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t i) {
  int64_t offset = 0;
  for (size_t d = sizes.size(); d-- > 0;) {
    const int64_t n = std::max<int64_t>(sizes[d], 1);
    offset += i % n * strides[d];
    i /= n;
  }
  return offset;
}

template <class T>
bool bad(T v, bool nan, bool inf) {
  if constexpr (is_complex_type<T>) {
    return bad(v.re, nan, inf) || bad(v.im, nan, inf);
  } else {
    const auto x = static_cast<double>(v);
    return (nan && std::isnan(x)) || (inf && std::isinf(x));
  }
}

// Calls f(TypeTag<T>{}) for a floating or complex dtype; returns `otherwise` for the others.
template <class R, class F>
R dispatch(DType t, R otherwise, const F& f) {
  if (!is_differentiable(t)) return otherwise;
  if (t == DType::Complex64) return f(TypeTag<Complex<float>>{});
  if (t == DType::Complex128) return f(TypeTag<Complex<double>>{});
  return dispatch_floating(t, f);
}

}  // namespace

int64_t first_nonfinite(DType t, const void* x, std::span<const int64_t> sizes,
                        std::span<const int64_t> strides, bool contiguous, bool nan,
                        bool inf) noexcept {
  COGRAD_SLOT_OR(-1, first_nonfinite, t, x, sizes, strides, contiguous, nan, inf);
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return dispatch(t, int64_t{-1}, [&](auto tag) -> int64_t {
    const auto* p = static_cast<const typename decltype(tag)::type*>(x);
    for (int64_t i = 0; i < n; ++i)
      if (bad(p[contiguous ? i : offset_of(sizes, strides, i)], nan, inf)) return i;
    return -1;
  });
}

Complex<double> shown_value(DType t, const void* element) noexcept {
  COGRAD_SLOT_OR({}, shown_value, t, element);
  return dispatch(t, Complex<double>(0.0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T v = *static_cast<const T*>(element);
    if constexpr (is_complex_type<T>)
      return Complex<double>(v);
    else
      return Complex<double>(static_cast<double>(v));
  });
}

}  // namespace cograd::kernels
