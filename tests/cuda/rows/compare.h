// SPDX-License-Identifier: BSD-3-Clause
// Compares elements within a bound that is stated for each row.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <type_traits>

#include "cuda/jit/rows.h"

namespace {

using namespace cograd;
using namespace cograd::cuda;

struct Comparison {
  bool good = true;
  int at = 0;
  std::string got, want;
};

// Units in the last place of the larger of the result and `scale`.
struct Bound {
  double units, scale;
};
inline Bound bound_of(const LoopRow& row) {
  // The terms of these formulas cancel: the result is as exact as the terms, which are about 1.
  constexpr const char* kCancels[] = {"gelu",       "gelu_grad",  "gelu_tanh_grad",
                                      "silu_grad",  "mish_grad",  "logaddexp",
                                      "logaddexp2", "tanhshrink", "special_entr_grad"};
  // The CPU's own exp and erf of float32 err by 1.5 and 3 units, and a formula has a few of them.
  Bound b{4, 0};
  for (const char* name : kCancels)
    if (row.name == name) b.scale = 1;
  // Near i pi, 1 + exp(v) cancels.
  if (is_complex(row.type) && (row.name == "sigmoid" || row.name == "silu")) b.units = 16;
  return b;
}

template <class T>
constexpr double kUnit = std::is_same_v<T, Half>       ? 0x1p-10
                         : std::is_same_v<T, BFloat16> ? 0x1p-7
                         : std::is_same_v<T, float>    ? 0x1p-23
                                                       : 0x1p-52;

inline double worst_seen = 0;

template <class T>
bool near(T got, T want, Bound b) {
  const auto x = static_cast<double>(got), y = static_cast<double>(want);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (x == y) return true;
  if (std::isinf(x) || std::isinf(y)) return false;
  const double size = std::max(std::fabs(y), b.scale);
  const double units = std::fabs(x - y) / (size * kUnit<T> + std::numeric_limits<double>::min());
  worst_seen = std::max(worst_seen, units);
  return units <= b.units;
}

inline Comparison compare(const LoopRow& row, int k, const char* got, const char* want, int n) {
  const DType t = k == 0 ? row.out : k == 1 ? row.first : row.type;
  const Bound b = bound_of(row);
  Comparison r;
  worst_seen = 0;
  dispatch_values(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int i = 0; i < n; ++i) {
      T x, y;
      std::memcpy(&x, got + static_cast<size_t>(i) * sizeof(T), sizeof x);
      std::memcpy(&y, want + static_cast<size_t>(i) * sizeof(T), sizeof y);
      bool good;
      if constexpr (is_complex_type<T>) {
        Bound part = b;
        part.scale = std::max({b.scale, std::fabs(double(y.re)), std::fabs(double(y.im))});
        if (!std::isfinite(part.scale)) part.scale = b.scale;
        good = near(x.re, y.re, part) && near(x.im, y.im, part);
        if (!good && r.good) {
          r.got = std::to_string(x.re) + " " + std::to_string(x.im);
          r.want = std::to_string(y.re) + " " + std::to_string(y.im);
        }
      } else if constexpr (std::is_integral_v<T>) {
        good = x == y;
      } else {
        good = near(x, y, b);
      }
      if constexpr (!is_complex_type<T>) {
        if (!good && r.good) {
          r.got = std::to_string(static_cast<double>(x));
          r.want = std::to_string(static_cast<double>(y));
        }
      }
      if (!good && r.good) {
        r.good = false;
        r.at = i;
      }
    }
  });
  if (!r.good) r.want += " (" + std::to_string(worst_seen) + " units at worst)";
  return r;
}

}  // namespace
