// SPDX-License-Identifier: BSD-3-Clause
// Masks and non-zero elements: count them per tile, scan the counts, move. -DTYPE= is the dtype of
// what decides, -DWIDTH= the number of bytes of an element that moves. Bound by memory: what
// decides is read twice.
#include "cuda/args/mask_args.h"
#include "prelude.h"

namespace cograd::device {

using T = TYPE;
using U = bytes_t<WIDTH>;

COGRAD_KERNEL(masked_fill, MaskedFillArgs, 256) {
  const U value = *static_cast<const U*>(a.value);
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    int64_t rest = i, self = 0, mask = 0;
    for (int d = a.ndim - 1; d >= 0; --d) {
      const int64_t q = d == 0 ? 0
                        : rest <= 0xFFFFFFFFll
                            ? static_cast<uint32_t>(rest) / static_cast<uint32_t>(a.size[d])
                            : rest / a.size[d];
      const int64_t r = rest - q * a.size[d];
      self += r * a.self_stride[d];
      mask += r * a.mask_stride[d];
      rest = q;
    }
    if (static_cast<const uint8_t*>(a.mask)[mask] != 0)
      *reinterpret_cast<U*>(static_cast<char*>(a.self) + self) = value;
  }
}

template <class V>
inline bool is_kept(const V* x, int64_t i) {
  if constexpr (is_complex_type<V>)
    return !(x[i].re == 0 && x[i].im == 0);
  else
    return !(load(x, i) == compute_t<V>(0));
}

// Neighbouring threads look at neighbouring elements.
COGRAD_BLOCK_KERNEL(count_kept, CompactArgs, 256) {
  COGRAD_SHARED unsigned total;
  for (int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    unsigned mine = 0;
    for (int k = 0; k < kMaskTile / kMaskThreads; ++k) {
      const int64_t i = tile * kMaskTile + k * kMaskThreads + threadIdx.x;
      const bool kept = i < a.n && is_kept(static_cast<const T*>(a.x), i);
      const unsigned ballot = __ballot_sync(kFullWarp, kept);
      mine += static_cast<unsigned>(__popc(ballot));
    }
    if (lane() == 0) atomicAdd(&total, mine);
    __syncthreads();
    if (threadIdx.x == 0) a.starts[tile] = total;
    __syncthreads();
  }
}

// One block replaces the counts by their sums, exclusive; the last entry is the total.
COGRAD_BLOCK_KERNEL(scan_counts, CompactArgs, 1024) {
  COGRAD_SHARED unsigned long long warps[32];
  unsigned long long carry = 0;
  const int nwarps = static_cast<int>(blockDim.x) / 32;
  for (int64_t first = 0; first < a.tiles; first += blockDim.x) {
    const int64_t i = first + threadIdx.x;
    const unsigned long long v = i < a.tiles ? a.starts[i] : 0;
    unsigned long long sum = v;
    COGRAD_UNROLL
    for (unsigned d = 1; d < 32; d *= 2) {
      const unsigned long long other = shuffle_up(sum, d);
      if (lane() >= static_cast<int>(d)) sum += other;
    }
    if (lane() == 31) warps[warp()] = sum;
    __syncthreads();
    unsigned long long before = carry, all = carry;
    for (int w = 0; w < nwarps; ++w) {
      if (w < warp()) before += warps[w];
      all += warps[w];
    }
    if (i < a.tiles) a.starts[i] = before + sum - v;
    carry = all;
    __syncthreads();
  }
  if (threadIdx.x == 0) a.starts[a.tiles] = carry;
}

// Calls f(i, k) for the k-th kept element i.
template <class F>
inline void each_kept(const CompactArgs& a, unsigned* warps, F&& f) {
  for (int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    int64_t from = static_cast<int64_t>(a.starts[tile]);
    for (int k = 0; k < kMaskTile / kMaskThreads; ++k) {
      const int64_t i = tile * kMaskTile + k * kMaskThreads + threadIdx.x;
      const bool kept = i < a.n && is_kept(static_cast<const T*>(a.x), i);
      const unsigned ballot = __ballot_sync(kFullWarp, kept);
      if (lane() == 0) warps[warp()] = static_cast<unsigned>(__popc(ballot));
      __syncthreads();
      int64_t mine = from + __popc(ballot & ((1u << lane()) - 1));
      for (int w = 0; w < kMaskThreads / 32; ++w) {
        if (w < warp()) mine += warps[w];
        from += warps[w];
      }
      // Another stream may have written the mask since its elements were counted.
      if (kept && mine < a.most) f(i, mine);
      __syncthreads();
    }
  }
}

COGRAD_BLOCK_KERNEL(masked_select, CompactArgs, 256) {
  COGRAD_SHARED unsigned warps[kMaskThreads / 32];
  each_kept(a, warps, [&](int64_t i, int64_t k) {
    static_cast<U*>(a.to)[k] = static_cast<const U*>(a.from)[i];
  });
}
COGRAD_BLOCK_KERNEL(masked_scatter, CompactArgs, 256) {
  COGRAD_SHARED unsigned warps[kMaskThreads / 32];
  each_kept(a, warps, [&](int64_t i, int64_t k) {
    static_cast<U*>(a.to)[i] = static_cast<const U*>(a.from)[k];
  });
}
// Writes the coordinates, `most` elements apart.
COGRAD_BLOCK_KERNEL(nonzero, CompactArgs, 256) {
  COGRAD_SHARED unsigned warps[kMaskThreads / 32];
  each_kept(a, warps, [&](int64_t i, int64_t k) {
    for (int d = a.ndim - 1; d >= 0; --d) {
      const int64_t q = i / a.size[d];
      static_cast<int64_t*>(a.to)[d * a.most + k] = i - q * a.size[d];
      i = q;
    }
  });
}

}  // namespace cograd::device
