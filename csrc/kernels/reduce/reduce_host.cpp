// SPDX-License-Identifier: BSD-3-Clause
// Reductions whose result is a number on the host.
#include <algorithm>

#include "kernels/reduce/reduce.h"
#include "tensor/slot.h"

namespace cograd::kernels {

namespace {

// Sums row by row into parallel lanes; large arrays use longer rows.
template <class T>
Complex<double> sum(const T* p, int64_t n) {
  constexpr int64_t kSize = sizeof(T), kLongest = 512;
  const int64_t parts = n >= 64 * kLongest ? kLongest : 32, rows = n / parts;
  double lanes[kLongest];
  std::fill_n(lanes, parts, 0.0);
  const int64_t kept[1] = {parts}, kept_step[1] = {kSize};
  const int64_t reduced[1] = {rows}, reduced_step[1] = {parts * kSize};
  reduce(ReduceOp::Sum, dtype_of<T>, p, {kept, kept_step, reduced, reduced_step}, DType::Float64,
         lanes);
  Complex<double> total(0.0);
  for (int64_t i = 0; i < parts; i += 2) total += {lanes[i], lanes[i + 1]};
  for (int64_t i = rows * parts; i < n; i += 2)
    total += {static_cast<double>(p[i]), static_cast<double>(p[i + 1])};
  return total;
}

}  // namespace

bool all_nonzero(DType t, const void* x, const ReduceGeometry& g) {
  COGRAD_SLOT_READS(all_nonzero, t, x, g);
  bool result = false;
  reduce(ReduceOp::All, t, x, g, DType::Bool, &result);
  return result;
}

Complex<double> complex_sum(DType t, const void* x, int64_t n) {
  COGRAD_SLOT_OR({}, complex_sum, t, x, n);
  return t == DType::Complex64 ? sum(static_cast<const float*>(x), 2 * n)
                               : sum(static_cast<const double*>(x), 2 * n);
}

}  // namespace cograd::kernels
