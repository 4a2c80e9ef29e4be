// SPDX-License-Identifier: BSD-3-Clause
// Adds what falls into each bin. Counts are integers, so their order does not matter. Weights are
// added in double in the order of the elements, which were sorted by bin: the sums repeat.
// -DWEIGHT= is the dtype of weights, -DOUT= that of the bins.
#include "cuda/args/search_args.h"
#include "exact.h"

namespace cograd::device {

// Up to kShared bins are counted in shared memory first.
constexpr int kShared = 4096;
COGRAD_BLOCK_KERNEL(count_bins, BinArgs, 256) {
  COGRAD_SHARED unsigned counts[kShared];
  const bool local = a.bins <= kShared;
  if (local)
    for (int b = static_cast<int>(threadIdx.x); b < a.bins; b += static_cast<int>(blockDim.x))
      counts[b] = 0;
  __syncthreads();
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const unsigned b = a.keys[i];
    if (b >= a.bins) continue;
    if (local)
      atomicAdd(&counts[b], 1u);
    else
      atomicAdd(&a.counts[b], 1ull);
  }
  __syncthreads();
  if (local)
    for (int b = static_cast<int>(threadIdx.x); b < a.bins; b += static_cast<int>(blockDim.x))
      if (counts[b] != 0) atomicAdd(&a.counts[b], static_cast<unsigned long long>(counts[b]));
}

COGRAD_KERNEL(sum_bins, BinArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const unsigned b = a.keys[i];
    if (b >= a.bins || (i > 0 && a.keys[i - 1] == b)) continue;
    double sum = 0;
    for (int64_t k = i; k < a.n && a.keys[k] == b; ++k)
      sum += static_cast<double>(load(static_cast<const WEIGHT*>(a.weights), a.order[k]));
    static_cast<OUT*>(a.out)[b] = rounded_to<OUT>(sum);
  }
}

}  // namespace cograd::device
