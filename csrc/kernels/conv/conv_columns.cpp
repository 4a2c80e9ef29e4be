// SPDX-License-Identifier: BSD-3-Clause
// Reads columns from images and adds them back.
#include "kernels/conv/conv_columns.h"

#include <algorithm>
#include <cstring>

#include "kernels/index/index_impl.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

constexpr int64_t kColumnGrain = 1 << 15;  // elements per task

// Calls f(channel, tap indices, row of the columns) for every tap.
template <class F>
void each_tap(const ConvShape& s, int64_t c0, int64_t c1, F&& f) {
  int64_t row = 0;
  for (int64_t c = c0; c < c1; ++c)
    for (int64_t kz = 0; kz < s.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < s.kernel[1]; ++ky)
        for (int64_t kx = 0; kx < s.kernel[2]; ++kx) f(c, kz, ky, kx, row++);
}

// Returns the offset in its image where a run under a tap begins; -1 if its row is outside the
// input.
int64_t row_offset(const ConvShape& s, const ColumnRun& r, int64_t kz, int64_t ky) {
  const int64_t z = input_index(s, 0, r.z, kz), y = input_index(s, 1, r.y, ky);
  return z < 0 || y < 0 ? -1 : (z * s.in[1] + y) * s.in[2];
}

template <class T>
void read(const ConvShape& s, const std::vector<ColumnRun>& runs, const T* x, int64_t image_stride,
          int64_t c0, int64_t c1, T* dst, int64_t ld) {
  const int64_t size = s.in_size(), step = s.stride[2];
  each_tap(s, c0, c1, [&](int64_t c, int64_t kz, int64_t ky, int64_t kx, int64_t row) {
    T* line = dst + row * ld;
    for (const ColumnRun& r : runs) {
      T* to = line + r.at;
      const int64_t n = r.x1 - r.x0, offset = row_offset(s, r, kz, ky);
      if (offset < 0) {
        std::fill_n(to, n, T{});
        continue;
      }
      const TapRange in = tap_range(s, kx, r.x0, r.x1);
      const T* from = x + r.image * image_stride + c * size + offset + in.start;
      std::fill_n(to, in.lo - r.x0, T{});
      T* at = to + (in.lo - r.x0);
      const int64_t count = in.hi - in.lo;
      if (step == 1)
        std::memcpy(at, from, static_cast<size_t>(count) * sizeof(T));
      else
        for (int64_t i = 0; i < count; ++i) at[i] = from[i * step];
      std::fill_n(at + count, r.x1 - in.hi, T{});
    }
  });
}

template <class T>
void add(const ConvShape& s, const std::vector<ColumnRun>& runs, const T* src, int64_t ld,
         int64_t c0, int64_t c1, T* x, int64_t image_stride) {
  const int64_t size = s.in_size(), step = s.stride[2];
  each_tap(s, c0, c1, [&](int64_t c, int64_t kz, int64_t ky, int64_t kx, int64_t row) {
    const T* line = src + row * ld;
    for (const ColumnRun& r : runs) {
      const int64_t offset = row_offset(s, r, kz, ky);
      if (offset < 0) continue;
      const TapRange in = tap_range(s, kx, r.x0, r.x1);
      T* to = x + r.image * image_stride + c * size + offset + in.start;
      const T* from = line + r.at + (in.lo - r.x0);
      const int64_t count = in.hi - in.lo;
      if (step == 1)
        for (int64_t i = 0; i < count; ++i) to[i] = add_to(to[i], from[i]);
      else
        for (int64_t i = 0; i < count; ++i) to[i * step] = add_to(to[i * step], from[i]);
    }
  });
}

// Returns a whole image as runs.
std::vector<ColumnRun> image_runs(const ConvShape& s) { return column_runs(s, 0, s.out_size()); }

template <class F>
void each_image_channel(const ConvShape& s, F&& f) {
  const int64_t work = std::max<int64_t>(1, s.taps() * s.out_size());
  const auto grain = std::max<int64_t>(1, kColumnGrain / work);
  parallel_for(0, s.batch * s.in_channels, grain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) f(lo / s.in_channels, lo % s.in_channels);
  });
}

}  // namespace

std::vector<ColumnRun> column_runs(const ConvShape& s, int64_t first, int64_t last) {
  std::vector<ColumnRun> runs;
  for (int64_t i = first; i < last;) {
    const int64_t x = i % s.out[2], line = i / s.out[2];
    const int64_t n = std::min(s.out[2] - x, last - i);
    const int64_t y = line % s.out[1], plane = line / s.out[1];
    runs.push_back({plane / s.out[0], plane % s.out[0], y, x, x + n, i - first});
    i += n;
  }
  return runs;
}

TapRange tap_range(const ConvShape& s, int64_t tap, int64_t x0, int64_t x1) {
  const int64_t shift = tap * s.dilation[2] - s.padding[2], step = s.stride[2];
  // `from` is the first position with an index >= 0, `to` the first with one >= in.
  const int64_t from = shift >= 0 ? 0 : (-shift + step - 1) / step;
  const int64_t room = s.in[2] - shift;
  const int64_t to = room <= 0 ? 0 : (room + step - 1) / step;
  const int64_t lo = std::clamp(from, x0, x1), hi = std::clamp(to, lo, x1);
  return {lo, hi, lo * step + shift};
}

void read_columns(DType t, const ConvShape& s, const std::vector<ColumnRun>& runs, const char* x,
                  int64_t image_stride, int64_t c0, int64_t c1, char* dst, int64_t ld) {
  by_width(dtype_size(t), [&]<class T>(TypeTag<T>) {
    read(s, runs, reinterpret_cast<const T*>(x), image_stride, c0, c1, reinterpret_cast<T*>(dst),
         ld);
  });
}

void add_columns(DType t, const ConvShape& s, const std::vector<ColumnRun>& runs, const char* src,
                 int64_t ld, int64_t c0, int64_t c1, char* x, int64_t image_stride) {
  dispatch_all(t, [&]<class T>(TypeTag<T>) {
    add(s, runs, reinterpret_cast<const T*>(src), ld, c0, c1, reinterpret_cast<T*>(x),
        image_stride);
  });
}

void im2col(DType t, const ConvShape& s, const void* x, void* cols) {
  COGRAD_SLOT(im2col, t, s, x, cols);
  const int64_t item = dtype_size(t), p = s.out_size();
  HeavyScope heavy(s.batch * s.depth() * p);
  const auto runs = image_runs(s);
  each_image_channel(s, [&](int64_t n, int64_t c) {
    const int64_t image = n * s.in_channels * s.in_size();
    read_columns(t, s, runs, static_cast<const char*>(x) + image * item, 0, c, c + 1,
                 static_cast<char*>(cols) + (n * s.in_channels + c) * s.taps() * p * item, p);
  });
}

void col2im(DType t, const ConvShape& s, const void* cols, void* x) {
  COGRAD_SLOT(col2im, t, s, cols, x);
  const int64_t item = dtype_size(t), p = s.out_size();
  HeavyScope heavy(s.batch * s.depth() * p);
  const auto runs = image_runs(s);
  std::memset(x, 0, static_cast<size_t>(s.batch * s.in_channels * s.in_size() * item));
  each_image_channel(s, [&](int64_t n, int64_t c) {
    const int64_t image = n * s.in_channels * s.in_size();
    add_columns(t, s, runs,
                static_cast<const char*>(cols) + (n * s.in_channels + c) * s.taps() * p * item, p,
                c, c + 1, static_cast<char*>(x) + image * item, 0);
  });
}

}  // namespace cograd::kernels
