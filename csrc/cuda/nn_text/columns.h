// SPDX-License-Identifier: BSD-3-Clause
// The columns of a convolution: the elements of an image under each tap of the kernel, and back.
// -DCOGRAD_T= is the dtype. Both kernels are bound by memory.
#include "cuda/args/gemm_args.h"
#include "cuda/text/prelude.h"

namespace cograd::device {

using T = COGRAD_T;

// out (images, channels taps, positions) = the element of x (images, channels, in) under each tap.
COGRAD_KERNEL(im2col, ColumnsArgs, 256) {
  const int64_t taps = a.kernel[0] * a.kernel[1] * a.kernel[2];
  const int64_t in = a.in[0] * a.in[1] * a.in[2];
  const int64_t total = a.images * a.channels * taps * a.positions;
  for (int64_t e = grid_index(); e < total; e += grid_size()) {
    int64_t p = e % a.positions, tap = e / a.positions % taps;
    const int64_t plane = e / (a.positions * taps);
    int64_t at = 0, step = 1;
    bool inside = true;
    COGRAD_UNROLL
    for (int d = 2; d >= 0; --d) {
      const int64_t i =
          p % a.places[d] * a.stride[d] - a.padding[d] + tap % a.kernel[d] * a.dilation[d];
      inside = inside && i >= 0 && i < a.in[d];
      at += i * step;
      step *= a.in[d];
      p /= a.places[d];
      tap /= a.kernel[d];
    }
    T* out = static_cast<T*>(a.out) + e;
    if (inside)
      *out = static_cast<const T*>(a.x)[plane * in + at];
    else
      store(out, compute_t<T>(0));
  }
}

// The transpose of im2col: out (images, channels, in) = the sum over the places in x that an
// element was copied to. Each thread adds up one element, always in the same order.
COGRAD_KERNEL(col2im, ColumnsArgs, 256) {
  const int64_t taps = a.kernel[0] * a.kernel[1] * a.kernel[2];
  const int64_t in = a.in[0] * a.in[1] * a.in[2];
  const T* x = static_cast<const T*>(a.x);
  for (int64_t e = grid_index(); e < a.images * a.channels * in; e += grid_size()) {
    const int64_t plane = e / in, at = e % in;
    const int64_t i[3] = {at / (a.in[1] * a.in[2]), at / a.in[2] % a.in[1], at % a.in[2]};
    compute_t<T> sum = compute_t<T>(0);
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t t[3] = {tap / (a.kernel[1] * a.kernel[2]), tap / a.kernel[2] % a.kernel[1],
                            tap % a.kernel[2]};
      int64_t p = 0;
      bool found = true;
      COGRAD_UNROLL
      for (int d = 0; d < 3; ++d) {
        const int64_t from = i[d] + a.padding[d] - t[d] * a.dilation[d];
        const int64_t q = from / a.stride[d];
        found = found && from >= 0 && q * a.stride[d] == from && q < a.places[d];
        p = p * a.places[d] + q;
      }
      if (found) sum = compute_t<T>(sum + load(x, (plane * taps + tap) * a.positions + p));
    }
    store(static_cast<T*>(a.out), e, sum);
  }
}

}  // namespace cograd::device
