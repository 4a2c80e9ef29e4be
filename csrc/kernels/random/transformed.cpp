// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/random/transformed.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/core/store.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

namespace {

double value_of(const DrawRule& rule, double u) {
  switch (rule.kind) {
    case DrawKind::LogNormal:
      return std::exp(rule.a + rule.b * u);
    case DrawKind::Geometric:
      return std::max(1.0, std::ceil(std::log1p(-u) * rule.b));
    default:
      return rule.a + rule.b * std::tan(std::numbers::pi * (u - 0.5));
  }
}

// Writes value(i) for lo <= i < hi, in blocks.
template <class F>
void write(DType t, int64_t lo, int64_t hi, void* out, const F& value) {
  double block[256];
  for (; lo < hi; lo += std::ssize(block)) {
    const int64_t m = std::min<int64_t>(hi - lo, std::ssize(block));
    for (int64_t i = 0; i < m; ++i) block[i] = value(lo + i);
    store_doubles(t, block, m, static_cast<char*>(out) + lo * dtype_size(t));
  }
}

}  // namespace

void transform_draws(DType t, const DrawRule& rule, const double* u, int64_t n, void* out) {
  COGRAD_SLOT(transform_draws, t, rule, u, n, out);
  const HeavyScope heavy(n);
  parallel_for(0, n, 8192, [&](int64_t lo, int64_t hi) {
    write(t, lo, hi, out, [&](int64_t i) { return value_of(rule, u[i]); });
  });
}

void mt_transformed(DType t, void* out, int64_t n, MtStream& s, const DrawRule& rule) {
  COGRAD_SLOT(mt_transformed, t, out, n, s, rule);
  write(t, 0, n, out, [&](int64_t) {
    if (rule.kind == DrawKind::Geometric) return std::ceil(std::log(s.uniform()) / rule.a);
    return value_of(rule, rule.kind == DrawKind::LogNormal ? s.normal() : s.uniform());
  });
}

bool all_between(DType t, const void* x, int64_t n, double low, double high, double* bad) {
  COGRAD_SLOT_OR(true, all_between, t, x, n, low, high, bad);
  return dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* at = static_cast<const T*>(x);
    for (int64_t i = 0; i < n; ++i) {
      *bad = static_cast<double>(at[i]);
      if (!(*bad >= low && *bad <= high)) return false;
    }
    return true;
  });
}

int64_t scarce_row(DType t, const void* w, int64_t rows, int64_t n, int64_t needed,
                   int64_t* positive) {
  COGRAD_SLOT_OR(rows, scarce_row, t, w, rows, n, needed, positive);
  return dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* at = static_cast<const T*>(w);
    for (int64_t r = 0; r < rows; ++r, at += n) {
      *positive = 0;
      for (int64_t i = 0; i < n && *positive < needed; ++i)
        *positive += static_cast<double>(at[i]) > 0;
      if (*positive < needed) return r;
    }
    return rows;
  });
}

}  // namespace cograd::kernels
