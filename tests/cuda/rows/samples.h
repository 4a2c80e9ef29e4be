// SPDX-License-Identifier: BSD-3-Clause
// Inputs of elementwise rows, from the ranges of elementwise.def.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>

#include "cuda/jit/rows.h"
#include "kernels/elementwise/tables.h"
#include "kernels/optim/optim_flags.h"

namespace {

using namespace cograd;
using namespace cograd::cuda;

inline constexpr int kMostOperands = 5;

struct Range {
  double lo, hi;
};
inline const std::map<std::string, Range, std::less<>>& ranges() {
  static const std::map<std::string, Range, std::less<>> all = {
#define UNARY(name, types, cost, args, forward, saves, grad, doc, ref, lo, hi, ...) \
  {#name, {lo, hi}},
#define UNARY_BOOL(name, types, forward, doc, ref, lo, hi) {#name, {lo, hi}},
#define BINARY(name, types, cost, args, forward, sa, ga, sb, gb, doc, ref, lo, hi, ...) \
  {#name, {lo, hi}},
#define BINARY_BOOL(name, types, forward, doc, ref, lo, hi) {#name, {lo, hi}},
#define BINARY_FLAT(name, types, cost, forward, doc, ref, lo, hi) {#name, {lo, hi}},
#define TERNARY(name, types, cost, args, forward, sa, ga, sb, gb, sc, gc, doc, ref, lo, hi) \
  {#name, {lo, hi}},
#include "kernels/elementwise/elementwise.def"
  };
  return all;
}

class Samples {
 public:
  explicit Samples(const LoopRow& row) : row_(row) {
    std::string name(row.name);
    for (const char* end : {"_grad_a", "_grad_b", "_grad"})
      if (name.ends_with(end)) name.resize(name.size() - strlen(end));
    if (name == "pow_far") name = "pow_scalar";
    if (row.kind == LoopKind::Cast || row.kind == LoopKind::Copy) range_ = {-300, 300};
    if (row.kind == LoopKind::Optim) range_ = {0.1, 2};
    const auto it = ranges().find(name);
    if (it != ranges().end()) range_ = it->second;
    if (name == "pow_far") range_ = {0.999999, 1.000001};
  }
  kernels::LoopFn loop() const {
    if (row_.name == "pow_far")
      return kernels::ElementRow(kernels::UnaryOp::pow_scalar).loop(DType::Float32);
    if (row_.name == "pow_far_grad")
      return kernels::unary_backward_loop(kernels::UnaryOp::pow_scalar, DType::Float32);
    return row_.loop;
  }
  // Writes n elements of operand k.
  void fill(char* to, int n, int k) const {
    const DType t = k == 0 && row_.kind != LoopKind::Optim ? row_.out
                    : k == 1                               ? row_.first
                                                           : row_.type;
    uint64_t state = 88172645463325252u + static_cast<uint64_t>(k) * 7919;
    for (int i = 0; i < n; ++i) {
      write(to + static_cast<int64_t>(i) * dtype_size(t), t, number(state, i, k),
            number(state, 9, k));
    }
  }

 private:
  double number(uint64_t& state, int i, int k) const {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const double unit = static_cast<double>(state >> 11) * 0x1p-53;
    const double special[] = {0, -0.0, 3e9, -1e20, NAN, HUGE_VAL, 1.5e19, -2.5};
    if (row_.kind == LoopKind::Cast && i < 8) return special[i];
    if (row_.inputs.starts_with("g") && k == 1) return 2 * unit - 1;
    return range_.lo + unit * (range_.hi - range_.lo);
  }
  static void write(char* to, DType t, double v, double imag) {
    dispatch_values(t, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T x{};
      if constexpr (is_complex_type<T>) {
        x = T(Complex<double>(v, imag));
      } else if constexpr (std::is_same_v<T, bool>) {
        x = v > 0.5 || (v < 0 && v > -1);
      } else if constexpr (std::is_integral_v<T>) {
        const double low = std::numeric_limits<T>::min() < 0 ? -100 : 0;
        x = static_cast<T>(std::floor(v < low ? low : v > 120 ? 120.0 : std::isnan(v) ? 5.0 : v));
      } else {
        x = static_cast<T>(static_cast<float>(v));
        if constexpr (std::is_same_v<T, double>) x = v;
      }
      std::memcpy(to, &x, sizeof x);
    });
  }

  const LoopRow& row_;
  Range range_{-3, 3};
};

// Parameters that suit most rows.
class ParamsOf {
 public:
  explicit ParamsOf(const LoopRow& row) : row_(row) {
    const bool limits = row.name.find("clamp") != std::string_view::npos ||
                        row.name.find("hardtanh") != std::string_view::npos;
    const bool logit = row.name.starts_with("logit"), far = row.name.starts_with("pow_far");
    const bool whole = row.name.starts_with("polygamma");
    const double p0 = logit ? 0.01 : limits ? -1 : far ? 33554433.0 : whole ? 2 : 0.75;
    if (is_floating(row.type)) {
      own_.set(0, p0).set(1, 1.25).set(2, -0.5);
    } else {
      own_.set(0, int64_t{limits ? -1 : 2}).set(1, int64_t{5}).set(2, int64_t{1});
      if (is_complex(row.type)) own_.set(0, 1.75).imag[0] = 0.25;
    }
    const double scalars[kernels::kOptimScalars] = {1,     0.01, 0.1,  0.99, 0.1,
                                                    0.999, 0.1,  1.01, 1e-3, 0.02};
    std::memcpy(scalars_, scalars, sizeof scalars);
  }
  const void* get() const {
    if (row_.kind == LoopKind::Optim) return scalars_;
    return row_.kind == LoopKind::Cast || row_.kind == LoopKind::Copy ? nullptr
           : row_.kind == LoopKind::Fill ? static_cast<const void*>(scalars_)
                                         : &own_;
  }

 private:
  const LoopRow& row_;
  kernels::ElementParams own_;
  double scalars_[kernels::kOptimScalars + 2] = {};
};

}  // namespace
