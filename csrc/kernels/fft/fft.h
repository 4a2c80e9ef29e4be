// SPDX-License-Identifier: BSD-3-Clause
// Discrete Fourier transforms of arrays in any layout, and the spectra of real arrays.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"
#include "tensor/dims.h"

namespace cograd::kernels {

// Two arrays whose sizes may differ along the transformed axis. Strides are in bytes.
struct FftArrays {
  Dims in_sizes, in_strides, out_sizes, out_strides;
};

// Transforms complex points along `axes`, one after the other, and multiplies by `scale`. `t` is
// the dtype of the parts, Float32 or Float64. `in` may be `out` if the strides are the same.
void fft_c2c(DType t, const FftArrays& arrays, const void* in, void* out, const Dims& axes,
             bool forward, double scale);
// Transforms real lines along `axis` to bins 0 to n/2, times `scale`. If `out` has n bins, the
// others are left as they are.
void fft_r2c(DType t, const FftArrays& arrays, const void* in, void* out, int axis, double scale);
// Transforms bins 0 to n/2 along `axis` to real lines, times `scale`. The imaginary parts of bin 0
// and of bin n/2 are not read.
void fft_c2r(DType t, const FftArrays& arrays, const void* in, void* out, int axis, double scale);
// Fills the bins from n/2 + 1 on along the last of `axes` with the conjugates of their mirror
// images through bin 0 of all axes.
void fft_mirror(DType t, const FftArrays& arrays, void* out, const Dims& axes);

}  // namespace cograd::kernels
