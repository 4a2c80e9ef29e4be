// SPDX-License-Identifier: BSD-3-Clause
// Fourier transforms by NVIDIA's cuFFT, where that library is installed.
#pragma once
#include <array>
#include <compare>
#include <cstdint>

#include "cuda/lib/library.h"
#include "tensor/backend.h"

namespace cograd::cuda {

enum class FftKind : uint8_t { Complex, ToHalf, FromHalf };

// A side of a transform: point (i, j, k) of line b is element
// b * distance + ((i * embed[1] + j) * embed[2] + k) * stride.
struct FftSide {
  std::array<int64_t, 3> embed{};
  int64_t stride = 0, distance = 0;
  auto operator<=>(const FftSide&) const = default;
};
// `batch` transforms of n[0] x ... n[rank - 1] points, in parts of float or, if wide, double. The
// half spectrum of real points has n[rank - 1] / 2 + 1 bins in the last dim.
struct FftShape {
  FftKind kind = FftKind::Complex;
  bool wide = false;
  int rank = 1;
  std::array<int64_t, 3> n{};
  FftSide in, out;
  int64_t batch = 1;
  auto operator<=>(const FftShape&) const = default;
};

// Throws NoLibrary if there is no cuFFT.
void need_cufft();
// Starts a transform on the current stream; `slot` stands in messages. A FromHalf transform may
// overwrite `in`.
void cufft_transform(const char* slot, const FftShape& shape, void* in, void* out, bool forward);
const Library& cufft();

PlanNumbers fft_plans(int gpu);
void limit_fft_plans(int gpu, int64_t most);
void clear_fft_plans(int gpu);

}  // namespace cograd::cuda
