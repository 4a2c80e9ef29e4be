// SPDX-License-Identifier: BSD-3-Clause
// Derivatives of samples with respect to parameters, by the functions of the CPU. -DTYPE= is the
// dtype.
#include "cuda/args/random_args.h"
#include "exact.h"
#include "kernels/elementwise/special_sample_gradients.h"

namespace cograd::device {

using T = TYPE;
constexpr double kEps = is_same<T, double> ? 1e-17 : 1e-10;

inline double element(const void* p, int64_t i) {
  return static_cast<double>(load(static_cast<const T*>(p), i));
}
COGRAD_KERNEL(gamma_sample_grad, SampleGradArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size())
    static_cast<T*>(a.out)[i] =
        rounded_to<T>(kernels::gamma_grad(element(a.alpha, i), element(a.x, i), kEps));
}
COGRAD_KERNEL(dirichlet_sample_grad, SampleGradArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const double first = element(a.alpha, i), rest = element(a.total, i) - first;
    static_cast<T*>(a.out)[i] =
        rounded_to<T>(kernels::beta_grad(element(a.x, i), first, rest, kEps));
  }
}

}  // namespace cograd::device
