// SPDX-License-Identifier: BSD-3-Clause
// These kernels read sorted rows: they find quantiles, modes and members, and the range of values.
#include <algorithm>
#include <cmath>

#include "kernels/index/sort.h"
#include "tensor/slot.h"

namespace cograd::kernels {

namespace {

template <class T>
void find_positions(const T* x, const int64_t* order, int64_t outer, int64_t n, int64_t inner,
                    const QuantileSpec& q, const QuantileOutputs& out) {
  T* weight = static_cast<T*>(out.weight);
  T* steps = static_cast<T*>(out.steps);
  for (int64_t r = 0; r < outer * inner; ++r) {
    const int64_t o = r / inner, i = r % inner;
    const int64_t base = o * n * inner + i;
    int64_t known = n;  // NaN values sort last
    while (known > 0 &&
           std::isnan(static_cast<double>(x[base + order[base + (known - 1) * inner] * inner])))
      --known;
    const bool poisoned = known == 0 || (known < n && !q.ignore_nan);
    steps[r] = static_cast<T>(poisoned ? 0 : known - 1);
    for (int64_t k = 0; k < q.count; ++k) {
      const int64_t to = (o * q.count + k) * inner + i;
      const double rank = poisoned ? static_cast<double>(known == 0 && q.ignore_nan ? 0 : n - 1)
                                   : q.fractions[k] * static_cast<double>(known - 1);
      double below = std::floor(rank);
      double above = std::ceil(rank);
      double w = rank - below;
      if (q.mode == Interpolation::Lower) above = below;
      if (q.mode == Interpolation::Higher) below = above;
      if (q.mode == Interpolation::Nearest) below = above = std::nearbyint(rank);
      if (q.mode == Interpolation::Midpoint) w = 0.5;
      if (below == above) w = 0;
      out.low[to] = order[base + static_cast<int64_t>(below) * inner];
      out.high[to] = order[base + static_cast<int64_t>(above) * inner];
      weight[to] = static_cast<T>(w);
    }
  }
}

template <class T>
void find_modes(const T* sorted, const int64_t* order, int64_t outer, int64_t n, int64_t inner,
                T* values, int64_t* indices) {
  for (int64_t r = 0; r < outer * inner; ++r) {
    const int64_t base = r / inner * n * inner + r % inner;
    int64_t run = 0, longest = 0, at = base;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t here = base + k * inner;
      const bool same = k > 0 && !(sorted[here] < sorted[here - inner]) &&
                        !(sorted[here - inner] < sorted[here]) && sorted[here] == sorted[here];
      run = same ? run + 1 : 1;
      if (run > longest) {
        longest = run;
        at = here;
      }
    }
    values[r] = sorted[at];
    indices[r] = order[at];
  }
}

}  // namespace

void quantile_positions(DType t, const void* x, const int64_t* order, int64_t outer, int64_t n,
                        int64_t inner, const QuantileSpec& q, const QuantileOutputs& out) {
  COGRAD_SLOT(quantile_positions, t, x, order, outer, n, inner, q, out);
  if (t == DType::Float64)
    find_positions(static_cast<const double*>(x), order, outer, n, inner, q, out);
  else
    find_positions(static_cast<const float*>(x), order, outer, n, inner, q, out);
}

void modes(DType t, const void* sorted, const int64_t* order, int64_t outer, int64_t n,
           int64_t inner, void* values, int64_t* indices) {
  COGRAD_SLOT(modes, t, sorted, order, outer, n, inner, values, indices);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    find_modes(static_cast<const T*>(sorted), order, outer, n, inner, static_cast<T*>(values),
               indices);
  });
}

void is_member(DType t, const void* sorted, int64_t m, const void* x, const int64_t* at, int64_t n,
               bool invert, bool* out) {
  COGRAD_SLOT(is_member, t, sorted, m, x, at, n, invert, out);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* keys = static_cast<const T*>(sorted);
    const T* values = static_cast<const T*>(x);
    for (int64_t i = 0; i < n; ++i) out[i] = (at[i] < m && keys[at[i]] == values[i]) != invert;
  });
}

ValueRange value_range(const double* x, int64_t n) {
  COGRAD_SLOT_READS(value_range, x, n);
  ValueRange r{x[0], x[0]};
  for (int64_t i = 1; i < n; ++i) {
    if (std::isnan(x[i])) r.lo = r.hi = x[i];
    r.lo = std::min(r.lo, x[i]);
    r.hi = std::max(r.hi, x[i]);
  }
  return r;
}

}  // namespace cograd::kernels
