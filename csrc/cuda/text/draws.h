// SPDX-License-Identifier: BSD-3-Clause
// Draws that are functions of uniform or normal numbers. -DTYPE= is the dtype.
#include "cuda/args/random_args.h"
#include "exact.h"
#include "late.h"

namespace cograd::device {

using T = TYPE;

COGRAD_KERNEL(transform_draws, DrawArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const double u = a.u[i];
    double v;
    if (a.kind == 0) {
      v = exp(a.a + a.b * u);
    } else if (a.kind == 1) {
      v = ceil(log1p(-u) * a.b);
      v = v > 1.0 ? v : 1.0;
    } else {
      v = a.a + a.b * tan(3.141592653589793 * (u - 0.5));
    }
    static_cast<T*>(a.out)[i] = rounded_to<T>(v);
  }
}

COGRAD_KERNEL(report_out_of_range, CheckDrawArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const double v = static_cast<double>(load(static_cast<const T*>(a.x), i));
    if (!(v >= a.low && v <= a.high)) report(a.late, kOutOfRange, a.op, i, a.n);
  }
}
// A block has a row: it counts the positive elements.
COGRAD_BLOCK_KERNEL(scarce_rows, CheckDrawArgs, 256) {
  COGRAD_SHARED unsigned long long total;
  for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    unsigned long long mine = 0;
    for (int64_t i = threadIdx.x; i < a.n; i += 256)
      mine += static_cast<double>(load(static_cast<const T*>(a.x), r * a.n + i)) > 0;
    if (mine != 0) atomicAdd(&total, mine);
    __syncthreads();
    if (threadIdx.x == 0 && static_cast<int64_t>(total) < a.needed) {
      if (a.late != nullptr)
        report(a.late, kScarceRow, a.op, r, a.needed);
      else
        atomicMin(a.found, static_cast<unsigned long long>(r));
    }
    __syncthreads();
  }
}

// The first arrivals of exponential clocks are draws without replacement.
COGRAD_KERNEL(arrivals, MultinomialArgs, 256) {
  for (int64_t i = grid_index(); i < a.rows * a.n; i += grid_size()) {
    const double rate = static_cast<double>(load(static_cast<const T*>(a.probs), i));
    a.arrivals[i] = rate > 0 ? -log1p(-a.u[i]) / rate : static_cast<double>(INFINITY);
  }
}

// Draws by inversion of the cumulative sum. A block has a row: each thread adds a part of it in
// order, the parts' sums are added in order, and bisection over these finds the part of a draw.
COGRAD_BLOCK_KERNEL(multinomial, MultinomialArgs, 256) {
  COGRAD_SHARED double ends[256];
  const int t = static_cast<int>(threadIdx.x);
  const int64_t part = (a.n + 255) / 256, first = t * part;
  const int64_t last = first + part < a.n ? first + part : a.n;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const T* p = static_cast<const T*>(a.probs) + row * a.n;
    double sum = 0;
    for (int64_t i = first; i < last; ++i) sum += static_cast<double>(load(p, i));
    ends[t] = sum;
    __syncthreads();
    if (t == 0)
      for (int k = 1; k < 256; ++k) ends[k] += ends[k - 1];
    __syncthreads();
    for (int64_t s = t; s < a.samples; s += 256) {
      const double u = a.u[row * a.samples + s] * ends[255];
      int low = 0, high = 255;
      while (low < high) {
        const int middle = (low + high) / 2;
        if (ends[middle] > u)
          high = middle;
        else
          low = middle + 1;
      }
      double at = low > 0 ? ends[low - 1] : 0.0;
      int64_t i = low * part, drawn = -1;
      const int64_t end = i + part < a.n ? i + part : a.n;
      for (; i < end; ++i) {
        const double v = static_cast<double>(load(p, i));
        at += v;
        if (v > 0) drawn = i;
        if (at > u) break;
      }
      // Rounding may leave u at the end of the row: the last possible number is drawn.
      for (int64_t k = (low * part < a.n ? low * part : a.n) - 1; drawn < 0 && k >= 0; --k)
        if (static_cast<double>(load(p, k)) > 0) drawn = k;
      a.out[row * a.samples + s] = drawn < 0 ? 0 : drawn;
    }
    __syncthreads();
  }
}

}  // namespace cograd::device
