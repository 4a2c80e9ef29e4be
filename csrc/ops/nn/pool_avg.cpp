// SPDX-License-Identifier: BSD-3-Clause
// avg_pool and adaptive_avg_pool: means of windows, one dim after the other.
#include <algorithm>

#include "ops/compute/host_values.h"
#include "ops/declare/autocast.h"
#include "ops/nn/pool.h"
#include "ops/nn/resample.h"

namespace cograd {

namespace {

using kernels::ResampleDim;
using kernels::Resampling;

// Adds a window over the elements from `lo` to `hi`, divided by `by`.
void add_window(ResampleDim& d, int64_t lo, int64_t hi, double by) {
  d.start.push_back(lo);
  d.count.push_back(hi - lo);
  for (int64_t t = 0; t < d.taps; ++t) d.weight.push_back(t < hi - lo ? 1 / by : 0);
}

ResampleMaps maps_of(int dims, Resampling map) {
  auto back = std::make_shared<const Resampling>(map.transposed());
  return {dims, std::make_shared<const Resampling>(std::move(map)), std::move(back), true};
}

// Returns averaging windows. Unless the divisor is `given`, they divide by the number of elements,
// with or without padding.
ResampleDim mean_windows(int64_t in, int64_t out, const PoolArgs& a, size_t i, bool with_padding,
                         bool given) {
  ResampleDim d{in, out, std::min(a.kernel[i], in), false, {}, {}, {}};
  for (int64_t o = 0; o < out; ++o) {
    const int64_t begin = o * a.stride[i] - a.padding[i];
    const int64_t end = std::min(begin + a.kernel[i], in + a.padding[i]);
    const int64_t lo = std::clamp<int64_t>(begin, 0, in), hi = std::clamp(end, lo, in);
    const double count = static_cast<double>(with_padding ? end - begin : hi - lo);
    add_window(d, lo, hi, given ? 1 : std::max(count, 1.0));
  }
  return d;
}

// Returns the number of elements by which mean_windows divides, one int64 per window.
Tensor window_counts(IntList in, IntList out, const PoolArgs& a, bool with_padding) {
  Tensor counts = ones(out, DType::Int64);
  for (size_t i = 0; i < out.size(); ++i) {
    Dims sizes;
    for (size_t j = 0; j < out.size(); ++j) sizes.push_back(j == i ? out[i] : 1);
    std::vector<int64_t> of_dim;
    for (int64_t o = 0; o < out[i]; ++o) {
      const int64_t begin = o * a.stride[i] - a.padding[i];
      const int64_t end = std::min(begin + a.kernel[i], in[i] + a.padding[i]);
      const int64_t inside = std::min(end, in[i]) - std::max<int64_t>(begin, 0);
      of_dim.push_back(std::max<int64_t>(with_padding ? end - begin : inside, 1));
    }
    counts = mul(counts, view(tensor_of(of_dim), sizes));
  }
  return counts;
}

// Computes exact int64 sums from the upper and the lower 32 bits, which a double represents.
Tensor exact_sums(const Tensor& x, const ResampleMaps& maps) {
  const Tensor word = full({}, DType::Int64, int64_t{1} << 32);
  const Tensor upper = div_floor(x, word);
  const Tensor lower = sub(x, mul(upper, word));
  return add(mul(resample(upper, maps), word), resample(lower, maps));
}

template <int N>
Tensor avg_pool(const char* op, const Tensor& x, IntList kernel, IntList stride, IntList padding,
                bool ceil_mode, bool with_padding, std::optional<int64_t> divisor) {
  const int64_t one[1] = {1};
  const PoolArgs a = pool_args(op, N, kernel, stride, padding, one, ceil_mode);
  COGRAD_CHECK(!divisor || *divisor != 0, "divisor must be not zero");
  check_pool_input(op, x, N);
  const IntList in = x.sizes().last(N);
  const Dims out = pool_sizes(op, in, a);
  check_room(x, out);
  const bool sums = divisor.has_value() || x.dtype() == DType::Int64;
  Resampling map;
  for (size_t i = 0; i < N; ++i)
    map.dims[3 - N + i] = mean_windows(in[i], out[i], a, i, with_padding, sums);
  const ResampleMaps maps = maps_of(N, std::move(map));
  if (x.dtype() == DType::Int64)  // truncates the quotient towards zero, as torch does
    return div_trunc(exact_sums(x, maps), divisor ? full({}, DType::Int64, *divisor)
                                                  : window_counts(in, out, a, with_padding));
  const Tensor y = resample(x, maps);
  return divisor ? div(y, static_cast<double>(*divisor)) : y;
}

// True for one window over all of the last dims: a mean, which accepts any leading dims, as in
// torch.
template <int N>
bool is_global(const Tensor& x, IntList output_size) {
  if (N == 1 || x.dim() < N) return false;
  const IntList in = x.sizes().last(N);
  return std::all_of(output_size.begin(), output_size.end(), [](int64_t n) { return n == 1; }) &&
         std::find(in.begin(), in.end(), 0) == in.end();
}

template <int N>
Tensor adaptive_avg_pool(const char* op, const Tensor& x, IntList output_size) {
  if (is_global<N>(x, pool_dims(op, output_size, "output_size", N))) {
    const int64_t last[] = {-3, -2, -1};
    return mean(x, IntList(last).last(N), true);
  }
  const Dims out = adaptive_sizes(op, x, output_size, N, x.dim() - N);
  const IntList in = x.sizes().last(N);
  check_room(x, out);
  Resampling map;
  for (size_t i = 0; i < N; ++i) {
    ResampleDim d{in[i], out[i], in[i] / std::max<int64_t>(out[i], 1) + 2, in[i] == out[i], {},
                  {},    {}};
    for (int64_t o = 0; o < out[i] && !d.identity; ++o) {
      // The window is floor(o in / out) to ceil((o + 1) in / out).
      const auto lo = static_cast<int64_t>(Wide(o) * in[i] / out[i]);
      const auto hi = static_cast<int64_t>((Wide(o + 1) * in[i] + out[i] - 1) / out[i]);
      add_window(d, lo, hi, static_cast<double>(hi - lo));
    }
    map.dims[3 - N + i] = std::move(d);
  }
  return resample(x, maps_of(N, std::move(map)));
}

#define COGRAD_AVG_POOL(N, flags, last_names, last_params, divisor, adaptive_flags, samples,     \
                        adaptive)                                                                \
  struct AvgPool##N##d {                                                                         \
    static constexpr OpSpec spec{                                                                \
        "avg_pool" #N "d",                                                                       \
        "input, kernel_size, stride=(), padding=0, ceil_mode=False, "                            \
        "count_include_pad=True" last_names,                                                     \
        flags | kReduction | kPoolAutocast<N>,                                                   \
        "Means of the windows of the last " #N " dims of (N, C, *) or (C, *).", samples};        \
    static constexpr DTypeSet kDTypes = kFloatTypes | dtype_set({DType::Int64});                 \
    static Tensor forward(const Tensor& x, IntList kernel, std::optional<IntList> stride,        \
                          IntList padding, bool ceil_mode, bool with_padding last_params) {      \
      if (x.dtype() != DType::Int64) check_pool_floating("avg_pool" #N "d", x);                  \
      return avg_pool<N>("avg_pool" #N "d", x, kernel, stride.value_or(IntList()), padding,      \
                         ceil_mode, with_padding, divisor);                                      \
    }                                                                                            \
  };                                                                                             \
  COGRAD_OP(AvgPool##N##d)                                                                       \
  struct AdaptiveAvgPool##N##d {                                                                 \
    static constexpr OpSpec spec{"adaptive_avg_pool" #N "d", "input, output_size",               \
                                 adaptive_flags | kReduction | kPoolAutocast<N>,                 \
                                 "Means of windows, one per element of output_size.", adaptive}; \
    static constexpr DTypeSet kDTypes = kFloatTypes;                                             \
    static Tensor forward(const Tensor& x, IntList output_size) {                                \
      check_pool_floating("adaptive_avg_pool" #N "d", x);                                        \
      return adaptive_avg_pool<N>("adaptive_avg_pool" #N "d", x, output_size);                   \
    }                                                                                            \
  };                                                                                             \
  COGRAD_OP(AdaptiveAvgPool##N##d)

#define COGRAD_DIVISOR , std::optional<int64_t> divisor
COGRAD_AVG_POOL(1, kFunction, "", , std::nullopt, kFunction,
                "T(2, 3, 7), 2; T(3, 8), 3, 2, 1, True; T(2, 2, 7), 3, 2, 1, False, False",
                "T(2, 3, 7), 3; T(3, 4), 6; T(2, 3, 5), (5,)")
COGRAD_AVG_POOL(2, kNN, ", divisor_override=None", COGRAD_DIVISOR, divisor, kNN,
                "T(2, 3, 4, 6), 2; T(3, 7, 8), (3, 2), (2, 1), (1, 0), True; "
                "T(1, 2, 5, 6), 3, 2, 1, True, False; T(1, 2, 4, 4), 2, 2, 0, False, True, 3",
                "T(2, 3, 5, 7), (2, 3); T(3, 4, 3), 2; T(1, 2, 4, 4), 1")
COGRAD_AVG_POOL(
    3, kNN, ", divisor_override=None", COGRAD_DIVISOR, divisor, kNN,
    "T(1, 2, 4, 3, 5), 2; T(2, 4, 5, 4), (2, 3, 1), (2, 1, 2), (1, 1, 0), True, False, 2",
    "T(1, 2, 4, 3, 5), (2, 2, 3); T(2, 3, 4, 3), 2")
#undef COGRAD_DIVISOR
#undef COGRAD_AVG_POOL

}  // namespace

}  // namespace cograd
