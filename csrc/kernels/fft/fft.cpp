// SPDX-License-Identifier: BSD-3-Clause
// Divides transforms into lines and the lines among threads.
#include "kernels/fft/fft.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/core/isa.h"
#include "kernels/fft/fft_plans.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(FftLoops, fft_loops)

namespace {

// Numbers the lines along `axis`: dims with small strides come last, and dims that lie like one are
// merged, so that neighbouring lines are neighbours in memory.
FftLines lines_of(const FftArrays& a, const void* in, void* out, int axis, double scale) {
  FftLines s;
  s.in = static_cast<const char*>(in);
  s.out = static_cast<char*>(out);
  s.in_step = a.in_strides[static_cast<size_t>(axis)];
  s.out_step = a.out_strides[static_cast<size_t>(axis)];
  s.scale = scale;
  SmallVec<size_t, 8> order;
  for (size_t d = 0; d < a.out_sizes.size(); ++d)
    if (d != static_cast<size_t>(axis) && a.out_sizes[d] != 1) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](size_t d, size_t e) {
    return std::abs(a.out_strides[d]) > std::abs(a.out_strides[e]);
  });
  for (const size_t d : order) {
    const int64_t size = a.out_sizes[d], from = a.in_strides[d], to = a.out_strides[d];
    if (!s.sizes.empty() && s.in_strides.back() == from * size &&
        s.out_strides.back() == to * size) {
      s.sizes.back() *= size;
      s.in_strides.back() = from;
      s.out_strides.back() = to;
      continue;
    }
    s.sizes.push_back(size);
    s.in_strides.push_back(from);
    s.out_strides.push_back(to);
  }
  return s;
}

// The element operations of a transform of n points.
int64_t cost_of(int64_t n) { return n * std::bit_width(static_cast<uint64_t>(n)); }

void run_lines(FftKind kind, DType t, int64_t n, const FftLines& lines) {
  const int64_t count = lines.count();
  if (count == 0) return;
  const int64_t cost = cost_of(n);
  const HeavyScope heavy(checked_mul(cost, count));
  const auto plan = fft_plan(kind, t, n);
  constexpr int64_t kTask = 1 << 14;  // element operations that are worth a task
  const int64_t lanes = plan->lanes(), group = lanes * std::max<int64_t>(1, kTask / cost / lanes);
  parallel_for(0, count, group, [&](int64_t lo, int64_t hi) { plan->run(lines, lo, hi); });
}

// Steps through the positions of an array, all but those along the dims with size 1 here.
template <class T>
void mirror_as(const FftArrays& a, char* out, const Dims& axes) {
  const auto last = static_cast<size_t>(axes.back());
  const int64_t n = a.out_sizes[last], half = n / 2 + 1, step = a.out_strides[last];
  FftLines lines = lines_of(a, out, out, static_cast<int>(last), 1);
  const int64_t count = lines.count();
  // Dim d of the array runs backwards through the source if it is an axis.
  Dims sizes, strides;
  SmallVec<char, 8> mirrored;
  for (size_t d = 0; d < a.out_sizes.size(); ++d) {
    if (d == last) continue;
    sizes.push_back(a.out_sizes[d]);
    strides.push_back(a.out_strides[d]);
    mirrored.push_back(std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end());
  }
  const HeavyScope heavy(count * n);
  parallel_for(0, count, std::max<int64_t>(1, (1 << 14) / n), [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      int64_t rest = lo, to = 0, from = 0;
      for (size_t d = sizes.size(); d-- > 0;) {
        const int64_t at = rest % sizes[d];
        rest /= sizes[d];
        to += at * strides[d];
        from += (mirrored[d] != 0 && at > 0 ? sizes[d] - at : at) * strides[d];
      }
      for (int64_t k = half; k < n; ++k) {
        T z[2];
        std::memcpy(z, out + from + (n - k) * step, sizeof z);
        z[1] = -z[1];
        std::memcpy(out + to + k * step, z, sizeof z);
      }
    }
  });
}

}  // namespace

void fft_c2c(DType t, const FftArrays& arrays, const void* in, void* out, const Dims& axes,
             bool forward, double scale) {
  COGRAD_SLOT(fft_c2c, t, arrays, in, out, axes, forward, scale);
  const FftArrays second{arrays.out_sizes, arrays.out_strides, arrays.out_sizes,
                         arrays.out_strides};
  for (size_t i = axes.size(); i-- > 0;) {
    const bool first = i + 1 == axes.size();
    const auto axis = static_cast<int>(axes[i]);
    FftLines lines =
        lines_of(first ? arrays : second, first ? in : out, out, axis, i == 0 ? scale : 1);
    lines.forward = forward;
    run_lines(FftKind::Complex, t, arrays.out_sizes[static_cast<size_t>(axis)], lines);
  }
}

void fft_r2c(DType t, const FftArrays& arrays, const void* in, void* out, int axis, double scale) {
  COGRAD_SLOT(fft_r2c, t, arrays, in, out, axis, scale);
  run_lines(FftKind::ToHalf, t, arrays.in_sizes[static_cast<size_t>(axis)],
            lines_of(arrays, in, out, axis, scale));
}

void fft_c2r(DType t, const FftArrays& arrays, const void* in, void* out, int axis, double scale) {
  COGRAD_SLOT(fft_c2r, t, arrays, in, out, axis, scale);
  run_lines(FftKind::FromHalf, t, arrays.out_sizes[static_cast<size_t>(axis)],
            lines_of(arrays, in, out, axis, scale));
}

void fft_mirror(DType t, const FftArrays& arrays, void* out, const Dims& axes) {
  COGRAD_SLOT(fft_mirror, t, arrays, out, axes);
  if (t == DType::Float64)
    mirror_as<double>(arrays, static_cast<char*>(out), axes);
  else
    mirror_as<float>(arrays, static_cast<char*>(out), axes);
}

}  // namespace cograd::kernels
