// SPDX-License-Identifier: BSD-3-Clause
// Builds the tables of separable maps, and divides planes among threads.
#include "kernels/nn/resample.h"

#include <algorithm>

#include "kernels/core/isa.h"
#include "kernels/nn/resample_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(ResampleLoops, resample_loops)

namespace {
constexpr int64_t kGrain = 1 << 14;  // elements per task
}

ResampleDim ResampleDim::transposed() const {
  ResampleDim r;
  r.in = out;
  r.out = in;
  r.identity = identity;
  if (identity) return r;
  const auto n = static_cast<size_t>(in);
  // The outputs that read input j are adjacent, as start and start + count never decrease.
  std::vector<int64_t> first(n, -1), last(n, 0);
  for (int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<size_t>(i);
    for (int64_t t = 0; t < count[at]; ++t) {
      const auto j = static_cast<size_t>(start[at] + t);
      if (first[j] < 0) first[j] = i;
      last[j] = i + 1;
    }
  }
  r.start.assign(n, 0);
  r.count.assign(n, 0);
  for (size_t j = 0; j < n; ++j) {
    if (first[j] < 0) {
      r.start[j] = j > 0 ? r.start[j - 1] : 0;
      continue;
    }
    r.start[j] = first[j];
    r.count[j] = last[j] - first[j];
    r.taps = std::max(r.taps, r.count[j]);
  }
  r.weight.assign(n * static_cast<size_t>(r.taps), 0);
  for (int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<size_t>(i);
    for (int64_t t = 0; t < count[at]; ++t) {
      const int64_t j = start[at] + t;
      r.weight[static_cast<size_t>(j * r.taps + i - r.start[static_cast<size_t>(j)])] =
          weight[static_cast<size_t>(i * taps + t)];
    }
  }
  return r;
}

void resample(DType t, const Resampling& r, int64_t planes, const void* x, void* y) {
  COGRAD_SLOT(resample, t, r, planes, x, y);
  const int64_t in = r.in_size(), out = r.out_size(), item = dtype_size(t);
  if (planes == 0 || out == 0) return;
  const int64_t work = std::max<int64_t>(1, std::max(in, out));
  HeavyScope heavy(planes * work);
  const ResampleLoops loops = resample_loops();
  parallel_for(0, planes, std::max<int64_t>(1, kGrain / work), [&](int64_t lo, int64_t hi) {
    loops.planes(t, r, hi - lo, static_cast<const char*>(x) + lo * in * item,
                 static_cast<char*>(y) + lo * out * item);
  });
}

}  // namespace cograd::kernels
