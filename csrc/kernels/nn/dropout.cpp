// SPDX-License-Identifier: BSD-3-Clause
// Does not branch on the mask, which would be mispredicted half of the time.
#include "kernels/nn/dropout.h"

#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

void masked_scale(DType t, const void* x, const bool* keep, double scale, int64_t n, void* out) {
  COGRAD_SLOT(masked_scale, t, x, keep, scale, n, out);
  const HeavyScope heavy(n);
  const auto run = [&](auto tag, auto factor) {
    using T = typename decltype(tag)::type;
    using A = decltype(factor);
    using V = std::conditional_t<is_complex_type<T>, T, A>;
    T* to = static_cast<T*>(out);
    const T* from = static_cast<const T*>(x);
    parallel_for(0, n, 32768, [=](int64_t lo, int64_t hi) {
      for (int64_t i = lo; i < hi; ++i)
        to[i] = static_cast<T>(static_cast<V>(from[i]) * (static_cast<A>(keep[i]) * factor));
    });
  };
  switch (t) {
    case DType::Float16:
      return run(TypeTag<Half>{}, static_cast<float>(scale));
    case DType::BFloat16:
      return run(TypeTag<BFloat16>{}, static_cast<float>(scale));
    case DType::Float32:
      return run(TypeTag<float>{}, static_cast<float>(scale));
    case DType::Complex64:
      return run(TypeTag<Complex<float>>{}, static_cast<float>(scale));
    case DType::Complex128:
      return run(TypeTag<Complex<double>>{}, scale);
    default:
      return run(TypeTag<double>{}, scale);
  }
}

}  // namespace cograd::kernels
