// SPDX-License-Identifier: BSD-3-Clause
// One pass of a stable radix sort by 8 bits: count the digits of each tile, scan the counts, move.
// Bound by memory: a pass reads the keys twice and writes keys and order. -DKEY= is their type.
#include "cuda/args/sort_args.h"
#include "prelude.h"

namespace cograd::device {

using Key = KEY;
constexpr int kWarps = kSortThreads / 32;

inline int digit_of(Key key, int shift) { return static_cast<int>(key >> shift & 0xFF); }

COGRAD_BLOCK_KERNEL(sort_count, SortArgs, 256) {
  COGRAD_SHARED unsigned counts[256];
  const unsigned t = threadIdx.x;
  for (int64_t b = blockIdx.x; b < a.rows * a.blocks; b += gridDim.x) {
    const int64_t row = b / a.blocks, tile = b - row * a.blocks;
    const Key* keys = static_cast<const Key*>(a.keys) + row * a.n;
    counts[t] = 0;
    __syncthreads();
    COGRAD_UNROLL
    for (int k = 0; k < kSortItems; ++k) {
      const int64_t i = tile * kSortTile + k * kSortThreads + t;
      if (i < a.n) atomicAdd(&counts[digit_of(keys[i], a.shift)], 1u);
    }
    __syncthreads();
    a.counts[(row * 256 + t) * a.blocks + tile] = counts[t];
    __syncthreads();
  }
}

// Returns the sum of the values of the threads before this one; `total` gets that of all.
inline unsigned block_scan(unsigned v, unsigned* warps, unsigned& total) {
  unsigned sum = v;
  COGRAD_UNROLL
  for (unsigned d = 1; d < 32; d *= 2) {
    const unsigned other = shuffle_up(sum, d);
    if (lane() >= static_cast<int>(d)) sum += other;
  }
  if (lane() == 31) warps[warp()] = sum;
  __syncthreads();
  unsigned before = 0, all = 0;
  COGRAD_UNROLL
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp()) before += warps[w];
    all += warps[w];
  }
  total = all;
  __syncthreads();
  return before + sum - v;
}

// A block scans the counts of one digit of one row.
COGRAD_BLOCK_KERNEL(sort_scan, SortArgs, 256) {
  COGRAD_SHARED unsigned warps[kWarps];
  for (int64_t b = blockIdx.x; b < a.rows * 256; b += gridDim.x) {
    unsigned* counts = a.counts + b * a.blocks;
    unsigned carry = 0;
    for (int64_t first = 0; first < a.blocks; first += kSortThreads) {
      const int64_t i = first + threadIdx.x;
      const unsigned v = i < a.blocks ? counts[i] : 0;
      unsigned total = 0;
      const unsigned before = block_scan(v, warps, total);
      if (i < a.blocks) counts[i] = carry + before;
      carry += total;
    }
    if (threadIdx.x == 0) a.totals[b] = carry;
  }
}

// Each warp has 512 neighbouring keys and takes them in order, 32 at a time. Ballots over the bits
// of the digit tell a lane which other lanes have the same one.
COGRAD_BLOCK_KERNEL(sort_move, SortArgs, 256) {
  COGRAD_SHARED unsigned counts[kWarps][256], starts[256], warps[kWarps];
  const unsigned t = threadIdx.x;
  const unsigned before = (1u << lane()) - 1;
  for (int64_t b = blockIdx.x; b < a.rows * a.blocks; b += gridDim.x) {
    const int64_t row = b / a.blocks, tile = b - row * a.blocks;
    const Key* keys = static_cast<const Key*>(a.keys) + row * a.n;
    const int64_t base = tile * kSortTile + warp() * (32 * kSortItems) + lane();
    for (int w = 0; w < kWarps; ++w) counts[w][t] = 0;
    unsigned total = 0;
    starts[t] = block_scan(a.totals[row * 256 + t], warps, total) +
                a.counts[(row * 256 + t) * a.blocks + tile];
    __syncthreads();
    Key key[kSortItems];
    unsigned rank[kSortItems];
    unsigned* mine = counts[warp()];
    COGRAD_UNROLL
    for (int k = 0; k < kSortItems; ++k) {
      const int64_t i = base + k * 32;
      const bool valid = i < a.n;
      key[k] = valid ? keys[i] : Key(0);
      const int digit = digit_of(key[k], a.shift);
      unsigned peers = __ballot_sync(kFullWarp, valid);
      COGRAD_UNROLL
      for (int bit = 0; bit < 8; ++bit) {
        const unsigned set = __ballot_sync(kFullWarp, digit >> bit & 1);
        peers &= digit >> bit & 1 ? set : ~set;
      }
      const unsigned seen = mine[digit];
      __syncwarp();
      rank[k] = seen + static_cast<unsigned>(__popc(peers & before));
      if (valid && (peers & before) == 0) mine[digit] = seen + static_cast<unsigned>(__popc(peers));
      __syncwarp();
    }
    __syncthreads();
    unsigned at = starts[t];
    COGRAD_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      const unsigned n = counts[w][t];
      counts[w][t] = at;
      at += n;
    }
    __syncthreads();
    Key* to = static_cast<Key*>(a.sorted_keys) + row * a.n;
    COGRAD_UNROLL
    for (int k = 0; k < kSortItems; ++k) {
      const int64_t i = base + k * 32;
      if (i >= a.n) continue;
      const int64_t place = mine[digit_of(key[k], a.shift)] + rank[k];
      to[place] = key[k];
      a.sorted_order[row * a.n + place] =
          a.order == nullptr ? static_cast<unsigned>(i) : a.order[row * a.n + i];
    }
    __syncthreads();
  }
}

}  // namespace cograd::device
