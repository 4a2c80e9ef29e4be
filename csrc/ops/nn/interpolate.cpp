// SPDX-License-Identifier: BSD-3-Clause
// Interpolation of images as a linear map of each dim.
#include <cmath>
#include <functional>
#include <numbers>

#include "ops/nn/pool.h"
#include "ops/nn/resample.h"

namespace cograd {

namespace {

using kernels::ResampleDim;
using kernels::Resampling;

enum class Mode { Nearest, NearestExact, Linear, Cubic, Lanczos };

Mode mode_of(std::string_view name) {
  if (name == "nearest") return Mode::Nearest;
  if (name == "nearest-exact") return Mode::NearestExact;
  if (name == "linear") return Mode::Linear;
  if (name == "lanczos") return Mode::Lanczos;
  COGRAD_CHECK(name == "cubic",
               "_interpolate(): expected mode 'nearest', 'nearest-exact', "
               "'linear', 'cubic' or 'lanczos', but got '",
               name, "'");
  return Mode::Cubic;
}

// Builds one dim's table of input weights; positions outside of the image use its border.
class Table {
 public:
  Table(int64_t in, int64_t out, int64_t taps) : in_(in) {
    dim_.in = in;
    dim_.out = out;
    dim_.taps = std::min(taps, in);
    dim_.identity = false;
  }
  // Adds the weights of the input positions first, first + 1, ... for the next output position.
  void add(int64_t first, std::span<const double> weights) {
    const auto clamped = [this](int64_t i) { return std::clamp<int64_t>(i, 0, in_ - 1); };
    const int64_t lo = clamped(first),
                  hi = clamped(first + static_cast<int64_t>(weights.size()) - 1);
    dim_.start.push_back(lo);
    dim_.count.push_back(hi - lo + 1);
    const size_t at = dim_.weight.size();
    dim_.weight.resize(at + static_cast<size_t>(dim_.taps), 0);
    for (size_t i = 0; i < weights.size(); ++i)
      dim_.weight[at + static_cast<size_t>(clamped(first + static_cast<int64_t>(i)) - lo)] +=
          weights[i];
  }
  ResampleDim take() { return std::move(dim_); }

 private:
  int64_t in_;
  ResampleDim dim_;
};

// Returns input positions per output position; `given` is the user's scale factor, or 0.
double step_of(int64_t in, int64_t out, bool align_corners, double given) {
  if (align_corners)
    return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  return given > 0 ? 1 / given : static_cast<double>(in) / static_cast<double>(out);
}

// Computes in float32, which decides ties between positions on an edge as torch does.
ResampleDim nearest(int64_t in, int64_t out, double given, bool exact, bool wide) {
  Table table(in, out, 1);
  const double step = step_of(in, out, false, given);
  const auto narrow =
      given > 0 ? static_cast<float>(1 / given) : static_cast<float>(in) / static_cast<float>(out);
  const double one[1] = {1};
  for (int64_t i = 0; i < out; ++i) {
    const double shift = exact ? 0.5 : 0;
    const double at = wide && exact
                          ? std::floor((static_cast<double>(i) + shift) * step)
                          : static_cast<double>(std::floor(
                                (static_cast<float>(i) + static_cast<float>(shift)) * narrow));
    table.add(std::min(static_cast<int64_t>(at), in - 1), one);
  }
  return table.take();
}

ResampleDim linear(int64_t in, int64_t out, bool align_corners, double given) {
  Table table(in, out, 2);
  const double step = step_of(in, out, align_corners, given);
  for (int64_t i = 0; i < out; ++i) {
    const double at = align_corners ? step * static_cast<double>(i)
                                    : std::max(0.0, step * (static_cast<double>(i) + 0.5) - 0.5);
    const auto first = std::min(static_cast<int64_t>(at), in - 1);
    const double part = std::min(at - static_cast<double>(first), 1.0);
    const double weights[2] = {1 - part, part};
    table.add(first, weights);
  }
  return table.take();
}

// Returns Keys' cubic convolution kernel with parameter a, at distance d.
double cubic_weight(double d, double a) {
  d = std::abs(d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

ResampleDim cubic(int64_t in, int64_t out, bool align_corners, double given) {
  Table table(in, out, 4);
  const double step = step_of(in, out, align_corners, given);
  for (int64_t i = 0; i < out; ++i) {
    const double at =
        align_corners ? step * static_cast<double>(i) : step * (static_cast<double>(i) + 0.5) - 0.5;
    const double floor = std::floor(at), part = at - floor;
    double weights[4];
    for (int k = 0; k < 4; ++k) weights[k] = cubic_weight(part - (k - 1), -0.75);
    table.add(static_cast<int64_t>(floor) - 1, weights);
  }
  return table.take();
}

// Returns Lanczos' window with three lobes, at distance d.
double lanczos_weight(double d) {
  const double x = std::numbers::pi * d;
  if (x == 0) return 1;
  return std::abs(d) < 3 ? 3 * std::sin(x) * std::sin(x / 3) / (x * x) : 0;
}

// Applies a filter that is widened by the step if the image shrinks; its weights sum to 1.
ResampleDim smooth(int64_t in, int64_t out, bool align_corners, double given, int reach,
                   const std::function<double(double)>& filter) {
  const double step = step_of(in, out, align_corners, given);
  const double widen = std::max(step, 1.0), support = reach * widen;
  Table table(in, out, static_cast<int64_t>(std::ceil(support)) * 2 + 1);
  std::vector<double> weights;
  for (int64_t i = 0; i < out; ++i) {
    const double center = step * (static_cast<double>(i) + 0.5);
    const auto lo = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto hi = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in);
    weights.clear();
    double total = 0;
    for (int64_t j = lo; j < hi; ++j) {
      weights.push_back(filter((static_cast<double>(j) - center + 0.5) / widen));
      total += weights.back();
    }
    if (total != 0)
      for (double& w : weights) w /= total;
    table.add(lo, weights);
  }
  return table.take();
}

ResampleDim table_of(Mode mode, int64_t in, int64_t out, bool align_corners, bool antialias,
                     double given, bool copied, bool wide) {
  if (in == out && (given == 0 || given == 1 || copied)) {
    ResampleDim same;
    same.in = same.out = in;
    return same;
  }
  if (mode == Mode::Nearest || mode == Mode::NearestExact)
    return nearest(in, out, given, mode == Mode::NearestExact, wide);
  if (mode == Mode::Lanczos) return smooth(in, out, align_corners, given, 3, lanczos_weight);
  if (antialias && mode == Mode::Linear)
    return smooth(in, out, align_corners, given, 1,
                  [](double d) { return std::max(0.0, 1 - std::abs(d)); });
  if (antialias)
    return smooth(in, out, align_corners, given, 2, [](double d) { return cubic_weight(d, -0.5); });
  return mode == Mode::Linear ? linear(in, out, align_corners, given)
                              : cubic(in, out, align_corners, given);
}

struct Interpolate {
  static constexpr OpSpec spec{
      "_interpolate",
      "input, size, mode, align_corners=False, antialias=False, scale_h=0.0, scale_w=0.0, "
      "scale_d=0.0",
      kInternal | kReduction,
      "Images (N, C, *) resized; the scales are for the last dims, or 0 where the sizes determine "
      "it.",
      "T(1, 2, 4), (7,), 'linear'; T(2, 1, 3, 4), (5, 2), 'linear', True; "
      "T(1, 2, 4, 5), (7, 9), 'cubic'; T(1, 1, 8, 7), (3, 4), 'linear', False, True; "
      "T(1, 1, 9, 6), (4, 3), 'cubic', False, True; T(1, 1, 7, 4), (3, 6), 'lanczos', False, True; "
      "T(1, 2, 2, 3, 2), (3, 5, 4), 'linear'; "
      "T(1, 2, 3, 4), (6, 7), 'nearest'; T(1, 2, 3, 4), (4, 9), 'nearest-exact'; "
      "T(1, 1, 4, 4), (6, 6), 'linear', False, False, 1.6, 1.6"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x, IntList size, std::string_view mode_name,
                        bool align_corners, bool antialias, double scale_h, double scale_w,
                        double scale_d) {
    const Mode mode = mode_of(mode_name);
    const size_t n = size.size();
    COGRAD_CHECK(n >= 1 && n <= 3 && x.dim() == static_cast<int>(n) + 2,
                 "_interpolate(): expected an input (N, C, *) of one to three further dims and "
                 "their sizes, but got shape ",
                 to_string(x.sizes()), " and sizes ", to_string(size));
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(x.dtype()), "\"upsample_", mode_name,
                                 "\" not implemented for '", scalar_type_name(x.dtype()),
                                 "': convert with .float() first");
    const IntList in = x.sizes().last(n);
    for (size_t i = 0; i < n; ++i)
      COGRAD_CHECK(in[i] > 0 && size[i] > 0 && x.size(1) > 0,
                   "Input and output sizes should be greater than 0, but got input ",
                   to_string(x.sizes()), " output ", to_string(size));
    check_room(x, size);
    const double scales[3] = {scale_d, scale_h, scale_w};
    // These modes copy along a dim that keeps its size, whatever its factor, as in torch.
    const bool copied = mode == Mode::Linear || antialias || (mode == Mode::Nearest && n == 2);
    Resampling map;
    for (size_t i = 0; i < n; ++i) {
      const size_t d = 3 - n + i;
      checked_mul(size[i], 64);
      map.dims[d] = table_of(mode, in[i], size[i], align_corners, antialias, scales[d], copied,
                             x.dtype() == DType::Float64);
    }
    auto back = std::make_shared<const Resampling>(map.transposed());
    return resample(x, {static_cast<int>(n), std::make_shared<const Resampling>(std::move(map)),
                        std::move(back)});
  }
};
COGRAD_OP(Interpolate)

// Rounds weights to integers over 2**bits, with as many bits as keep the largest below 2**15, as
// torch does.
int round_weights(ResampleDim& dim) {
  double largest = 0;
  for (const double w : dim.weight) largest = std::max(largest, w);
  int bits = 0;
  while (bits < 22 && static_cast<int>(0.5 + largest * (1 << (bits + 1))) < 1 << 15) ++bits;
  for (double& w : dim.weight) w = std::trunc(w * (1 << bits) + (w < 0 ? -0.5 : 0.5));
  return bits;
}

struct InterpolateBytes {
  static constexpr OpSpec spec{
      "_interpolate_bytes",
      "input, size, mode, align_corners=False, antialias=False, scale_h=0.0, scale_w=0.0",
      kInternal,
      "Images (N, C, H, W) of uint8 resized with integer weights, first "
      "along W and then, after rounding to bytes, along H.",
      "none: tested by hand"};
  static constexpr DTypeSet kDTypes = dtype_set({DType::UInt8});
  static Tensor forward(const Tensor& x, IntList size, std::string_view mode_name,
                        bool align_corners, bool antialias, double scale_h, double scale_w) {
    COGRAD_CHECK(x.dtype() == DType::UInt8 && x.dim() == 4 && size.size() == 2,
                 "_interpolate_bytes(): expected images (N, C, H, W) of uint8 and two sizes");
    const IntList in = x.sizes().last(2);
    for (size_t i = 0; i < 2; ++i)
      COGRAD_CHECK(in[i] > 0 && size[i] > 0 && x.size(1) > 0,
                   "Input and output sizes should be greater than 0, but got input ",
                   to_string(x.sizes()), " output ", to_string(size));
    check_room(x, size);
    const double scales[2] = {scale_h, scale_w};
    Tensor y = x;
    for (const size_t i : {1, 0}) {
      checked_mul(size[i], 64);
      if (in[i] == size[i]) continue;
      Resampling map;
      map.dims[2] = table_of(mode_of(mode_name), in[i], size[i], align_corners, antialias,
                             scales[i], false, true);
      const int bits = round_weights(map.dims[2]);
      const Tensor lines = i == 1 ? y : transpose(y, 2, 3);
      auto back = std::make_shared<const Resampling>(map.transposed());
      const Tensor sums =
          resample(contiguous(cast(lines, DType::Float64)),
                   {1, std::make_shared<const Resampling>(std::move(map)), std::move(back)});
      const Tensor rounded = floor(add(mul(sums, std::ldexp(1.0, -bits)), 0.5));
      const Tensor bytes = cast(clamp_max(clamp_min(rounded, 0), 255), DType::UInt8);
      y = i == 1 ? bytes : contiguous(transpose(bytes, 2, 3));
    }
    return in[0] == size[0] && in[1] == size[1] ? clone(x) : y;
  }
};
COGRAD_OP(InterpolateBytes)

}  // namespace

}  // namespace cograd
