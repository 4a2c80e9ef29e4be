// SPDX-License-Identifier: BSD-3-Clause
// These kernels complete cuFFT's transforms: mirror images of half a spectrum, and its edges.
// -DCOGRAD_T= is a complex dtype.
#include "cuda/args/fft_args.h"
#include "cuda/text/prelude.h"

namespace cograd::device {

using T = COGRAD_T;

COGRAD_KERNEL(fft_mirror, MirrorArgs, 256) {
  T* const out = static_cast<T*>(a.out);
  const int64_t missing = a.n - a.half;
  for (int64_t i = grid_index(); i < a.total; i += grid_size()) {
    const int64_t bin = a.half + i % missing;
    int64_t line = i / missing, to = bin * a.step, from = (a.n - bin) * a.step;
    for (int d = 0; d < a.ndim; ++d) {
      const int64_t size = a.dims[d].size, at = line % size;
      line /= size;
      to += at * a.dims[d].stride;
      from += (a.dims[d].mirrored && at > 0 ? size - at : at) * a.dims[d].stride;
    }
    out[to] = conj(out[from]);
  }
}

COGRAD_KERNEL(fft_edges, EdgeArgs, 256) {
  T* const x = static_cast<T*>(a.x);
  for (int64_t i = grid_index(); i < a.lines; i += grid_size()) {
    x[i * a.bins].im = 0;
    if (a.last > 0) x[i * a.bins + a.last].im = 0;
  }
}

}  // namespace cograd::device
