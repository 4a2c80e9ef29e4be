// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/conv/conv_few.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/conv/conv_columns.h"
#include "kernels/product/gemm.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

constexpr int64_t kMost = 256;            // maximum number of positions
constexpr int64_t kMostOfStrides = 1024;  // the same if the direct method needs more copies
constexpr int64_t kColumns = 1250 << 10;  // then the maximum number of column elements
constexpr int64_t kMostInput = (int64_t{1} << 31) - 1;
constexpr int64_t kLeastWeights = 1 << 12;  // packing fewer weights takes no time
constexpr int64_t kTasks = 8;               // number of tasks that copies are cut into

// Returns the index that each position of one dim reads under one tap, -1 outside the input.
std::vector<int64_t> places_of(const ConvShape& s, int dim, int64_t tap) {
  std::vector<int64_t> at;
  for (int64_t p = 0; p < s.out[dim]; ++p) at.push_back(input_index(s, dim, p, tap));
  return at;
}

// Returns the offsets that all positions of all images read under each tap in turn, counted from
// the first element of a channel of the first image; -1 outside the input.
std::vector<int32_t> places(const ConvShape& s) {
  std::vector<int32_t> at(static_cast<size_t>(s.taps() * s.batch * s.out_size()));
  auto to = at.begin();
  for (int64_t kz = 0; kz < s.kernel[0]; ++kz)
    for (int64_t ky = 0; ky < s.kernel[1]; ++ky)
      for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
        const auto zs = places_of(s, 0, kz), ys = places_of(s, 1, ky), xs = places_of(s, 2, kx);
        for (int64_t i = 0; i < s.batch; ++i)
          for (const int64_t z : zs)
            for (const int64_t y : ys) {
              const int64_t row = ((i * s.in_channels * s.in[0] + z) * s.in[1] + y) * s.in[2];
              for (const int64_t x : xs)
                *to++ = (z | y | x) < 0 ? -1 : static_cast<int32_t>(row + x);
            }
      }
  return at;
}

// Writes y (N, O, P) = out (O, N P) + bias (O).
template <class T>
void write_images(const ConvShape& s, const T* out, const T* bias, T* y) {
  const int64_t p = s.out_size();
  parallel_for(0, s.out_channels, 1 + (1 << 13) / (s.batch * p), [&](int64_t lo, int64_t hi) {
    for (int64_t o = lo; o < hi; ++o) {
      const T b = bias != nullptr ? bias[o] : T(0);
      for (int64_t i = 0; i < s.batch; ++i) {
        const T* from = out + (o * s.batch + i) * p;
        T* to = y + (i * s.out_channels + o) * p;
        for (int64_t j = 0; j < p; ++j) to[j] = from[j] + b;
      }
    }
  });
}

template <class T>
void forward(DType t, const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
  const int64_t n = s.batch * s.out_size(), k = s.depth();
  const std::unique_ptr<T[]> cols(new T[static_cast<size_t>(k * n)]);
  const std::unique_ptr<T[]> out(new T[static_cast<size_t>(s.out_channels * n)]);
  const std::vector<int32_t> at = places(s);
  parallel_for(0, s.in_channels, 1 + s.in_channels / kTasks, [&](int64_t lo, int64_t hi) {
    for (int64_t c = lo; c < hi; ++c) {
      const T* from = x + c * s.in_size();
      T* to = cols.get() + c * s.taps() * n;
      for (size_t i = 0; i < at.size(); ++i) to[i] = at[i] < 0 ? T(0) : from[at[i]];
    }
  });
  gemm(t, false, false, s.out_channels, n, k, 1, w, k, cols.get(), n, 0, out.get(), n);
  write_images(s, out.get(), bias, y);
}

}  // namespace

bool few_forward_suits(DType t, const ConvShape& s) {
  if ((t != DType::Float32 && t != DType::Float64) || s.groups != 1 || s.batch == 0) return false;
  if (s.out_size() == 0 || s.batch > kMostOfStrides / s.out_size()) return false;
  if (s.in_size() > kMostInput / std::max<int64_t>(1, s.batch * s.in_channels)) return false;
  const int64_t n = s.batch * s.out_size(), k = s.depth();
  if (k >= 1 << 24 || s.out_channels * k < kLeastWeights) return false;
  const bool strides = s.stride[0] * s.stride[1] * s.stride[2] > 1;
  return n <= kMost || (strides && n * k <= kColumns);
}

void few_forward(DType t, const ConvShape& s, const void* x, const void* w, const void* bias,
                 void* y) {
  if (t == DType::Float32)
    forward(t, s, static_cast<const float*>(x), static_cast<const float*>(w),
            static_cast<const float*>(bias), static_cast<float*>(y));
  else
    forward(t, s, static_cast<const double*>(x), static_cast<const double*>(w),
            static_cast<const double*>(bias), static_cast<double*>(y));
}

}  // namespace cograd::kernels
