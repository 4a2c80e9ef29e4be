// SPDX-License-Identifier: BSD-3-Clause
// Derivatives of samples of gamma and beta distributions, element by element.
#include "kernels/core/floating.h"
#include "kernels/elementwise/special_sample_gradients.h"
#include "kernels/random/random_draws.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

namespace {

// The precision at which series and fractions end, by the dtype of the result.
template <class T>
constexpr double kEps = std::is_same_v<T, double> ? 1e-17 : 1e-10;

template <class T, class F>
void for_elements(void* out, int64_t n, const F& f) {
  T* to = static_cast<T*>(out);
  HeavyScope heavy(n * 64);
  parallel_for(0, n, 64, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) to[lo] = rounded<T>(f(lo));
  });
}

}  // namespace

void gamma_sample_grad(DType t, void* out, const void* alpha, const void* x, int64_t n) {
  COGRAD_SLOT(gamma_sample_grad, t, out, alpha, x, n);
  dispatch_floating(t, [&]<class T>(TypeTag<T>) {
    const T* a = static_cast<const T*>(alpha);
    const T* at = static_cast<const T*>(x);
    for_elements<T>(out, n, [=](int64_t i) {
      return gamma_grad(static_cast<double>(a[i]), static_cast<double>(at[i]), kEps<T>);
    });
  });
}

void dirichlet_sample_grad(DType t, void* out, const void* x, const void* alpha, const void* total,
                           int64_t n) {
  COGRAD_SLOT(dirichlet_sample_grad, t, out, x, alpha, total, n);
  dispatch_floating(t, [&]<class T>(TypeTag<T>) {
    const T* at = static_cast<const T*>(x);
    const T* a = static_cast<const T*>(alpha);
    const T* sum = static_cast<const T*>(total);
    for_elements<T>(out, n, [=](int64_t i) {
      const auto first = static_cast<double>(a[i]);
      return beta_grad(static_cast<double>(at[i]), first, static_cast<double>(sum[i]) - first,
                       kEps<T>);
    });
  });
}

}  // namespace cograd::kernels
