// SPDX-License-Identifier: BSD-3-Clause
// Reductions: -DCOGRAD_T is the dtype's type, -DCOGRAD_LEAF the state (reduce_leaf.h). They aim at
// the memory's bandwidth: a thread has up to 64 bytes in flight. The order of all additions depends
// on the geometry and the GPU's size alone.
#pragma once
#include "reduce_leaf.h"

namespace cograd::device {

using State = COGRAD_LEAF;
inline constexpr int kPack = 16 / sizeof(Element);  // elements of a 16-byte load
inline constexpr int kDeep = sizeof(Element) >= 4 ? 4 : sizeof(Element);
inline constexpr int kColumns = sizeof(Element) == 8 ? 2 : 4;  // columns of one thread
inline constexpr int kGroups = kReduceThreads / 32;

struct Offsets {
  int64_t in, out;
};
// Returns where element i of the dims lies.
inline Offsets locate(const ReduceDim* dims, int n, int wide, int64_t i) {
  Offsets o{0, 0};
  for (int d = n - 1; d >= 0; --d) {
    const ReduceDim& m = dims[d];
    const int64_t up = d == 0 ? 0
                       : wide
                           ? i / m.size
                           : Divider{0, m.multiplier, m.shift}.quotient(static_cast<uint32_t>(i));
    const int64_t at = i - up * m.size;
    o.in += at * m.stride;
    o.out += at * m.out;
    i = up;
  }
  return o;
}
inline int64_t term_offset(const ReduceArgs& a, int64_t i) {
  return a.nreduced == 1 ? i * a.reduced[0].stride : locate(a.reduced, a.nreduced, a.wide, i).in;
}
inline const Element* element(const char* p) { return reinterpret_cast<const Element*>(p); }

// Adds the adjacent elements [lo, hi) of p: single ones up to a multiple of 16 bytes, packs, rest.
inline void add_flat(State& s, const ReduceArgs& a, const char* p, int64_t lo, int64_t hi, int t,
                     int group) {
  const Element* x = element(p);
  const auto one = [&](int64_t i) {
    const Computed v = load(x, i);
    s.add<1>(&v, {i, 0, 1}, a);
  };
  const uint64_t past = reinterpret_cast<uint64_t>(x + lo) % 16;
  const int64_t head = past == 0 ? 0 : static_cast<int64_t>((16 - past) / sizeof(Element));
  const int64_t first = head < hi - lo ? lo + head : hi;
  for (int64_t i = lo + t; i < first; i += group) one(i);
  const auto* packs = reinterpret_cast<const Pack<Element, kPack>*>(x + first);
  const int64_t count = (hi - first) / kPack;
  int64_t k = t;
  for (; k + (kDeep - 1) * group < count; k += kDeep * group) {
    Pack<Element, kPack> loaded[kDeep];
    COGRAD_UNROLL
    for (int u = 0; u < kDeep; ++u) loaded[u] = packs[k + u * group];
    Computed v[kDeep * kPack];
    COGRAD_UNROLL
    for (int j = 0; j < kDeep * kPack; ++j) v[j] = load(&loaded[j / kPack].v[j % kPack]);
    s.add<kDeep * kPack>(v, {first + k * kPack, static_cast<int64_t>(group) * kPack, kPack}, a);
  }
  for (; k < count; k += group) {
    const Pack<Element, kPack> loaded = packs[k];
    Computed v[kPack];
    COGRAD_UNROLL
    for (int j = 0; j < kPack; ++j) v[j] = load(&loaded.v[j]);
    s.add<kPack>(v, {first + k * kPack, 0, kPack}, a);
  }
  for (int64_t i = first + count * kPack + t; i < hi; i += group) one(i);
}

inline void add_strided(State& s, const ReduceArgs& a, const char* p, int64_t lo, int64_t hi, int t,
                        int group) {
  int64_t i = lo + t;
  for (; i + 3 * group < hi; i += 4 * group) {
    Computed v[4];
    COGRAD_UNROLL
    for (int j = 0; j < 4; ++j) v[j] = load(element(p + term_offset(a, i + j * group)));
    s.add<4>(v, {i, group, 1}, a);
  }
  for (; i < hi; i += group) {
    const Computed v = load(element(p + term_offset(a, i)));
    s.add<1>(&v, {i, 0, 1}, a);
  }
}

inline State* partial_of(const ReduceArgs& a) { return static_cast<State*>(a.partial); }

// Writes the state of a piece of an output.
inline void put(const ReduceArgs& a, const State& s, int64_t output, int64_t chunk, int64_t at) {
  if (a.chunks == 1)
    s.finish(a, at);
  else
    partial_of(a)[output * a.chunks + chunk] = s;
}

// Merges the states of the block's threads; thread 0 gets the result.
inline void merge_block(State& s) {
  COGRAD_SHARED uint64_t room[kGroups * ((sizeof(State) + 7) / 8)];
  State* shared = reinterpret_cast<State*>(room);
  for (int d = 16; d > 0; d /= 2) s.merge(shuffle_down(s, d));
  __syncthreads();  // the round before may still read
  if (lane() == 0) shared[warp()] = s;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < kGroups; ++w) s.merge(shared[w]);
}

// a.group threads reduce a piece of an output.
COGRAD_BLOCK_KERNEL(reduce_rows, ReduceArgs, kReduceThreads) {
  const int group = a.group, t = static_cast<int>(threadIdx.x) % group;
  const int per_block = kReduceThreads / group;
  const int64_t works = a.outputs * a.chunks;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * per_block; first < works;
       first += static_cast<int64_t>(gridDim.x) * per_block) {
    const int64_t work = first + threadIdx.x / group;
    const int64_t output = a.chunks == 1 ? work : work / a.chunks;
    const int64_t chunk = work - output * a.chunks;
    State s;
    s.init();
    Offsets o{0, 0};
    if (work < works) {
      o = locate(a.kept, a.nkept, a.wide, output);
      const char* p = static_cast<const char*>(a.x) + o.in;
      const int64_t lo = chunk * a.chunk, end = lo + a.chunk, hi = end < a.terms ? end : a.terms;
      if (a.flat)
        add_flat(s, a, p, lo, hi, t, group);
      else
        add_strided(s, a, p, lo, hi, t, group);
    }
    if (group == kReduceThreads) {
      merge_block(s);
    } else {
      for (int d = group / 2; d > 0; d /= 2) s.merge(shuffle_xor(s, d));
    }
    if (t == 0 && work < works) put(a, s, output, chunk, o.out);
  }
}

// Adds rows [lo, hi) to the states of kWidth adjacent columns; the block's y threads take turns.
template <int kWidth>
inline void add_columns(State* s, const ReduceArgs& a, const char* p, int64_t lo, int64_t hi) {
  const auto read = [&](int64_t i) {
    return *reinterpret_cast<const Pack<Element, kWidth>*>(p + term_offset(a, i));
  };
  const int64_t step = blockDim.y;
  int64_t i = lo + threadIdx.y;
  for (; i + 3 * step < hi; i += 4 * step) {
    const Pack<Element, kWidth> rows[4] = {read(i), read(i + step), read(i + 2 * step),
                                           read(i + 3 * step)};
    COGRAD_UNROLL
    for (int c = 0; c < kWidth; ++c) {
      Computed v[4];
      COGRAD_UNROLL
      for (int j = 0; j < 4; ++j) v[j] = load(&rows[j].v[c]);
      s[c].add<4>(v, {i, step, 1}, a);
    }
  }
  for (; i < hi; i += step) {
    const Pack<Element, kWidth> row = read(i);
    COGRAD_UNROLL
    for (int c = 0; c < kWidth; ++c) {
      const Computed v = load(&row.v[c]);
      s[c].add<1>(&v, {i, 0, 1}, a);
    }
  }
}

template <int kWidth>
inline void reduce_columns_of(const ReduceArgs& a) {
  COGRAD_SHARED uint64_t room[kReduceThreads * kWidth * ((sizeof(State) + 7) / 8)];
  State* shared = reinterpret_cast<State*>(room);
  const ReduceDim& line = a.kept[a.nkept - 1];
  const int64_t threads = line.size / kWidth, tiles = (threads + blockDim.x - 1) / blockDim.x;
  const int64_t works = a.outputs / line.size * tiles * a.chunks;
  for (int64_t work = blockIdx.x; work < works; work += gridDim.x) {
    const int64_t place = work / a.chunks, chunk = work - place * a.chunks;
    const int64_t row = place / tiles, j = (place - row * tiles) * blockDim.x + threadIdx.x;
    const Offsets o = locate(a.kept, a.nkept - 1, a.wide, row);
    State s[kWidth];
    for (int c = 0; c < kWidth; ++c) s[c].init();
    if (j < threads) {
      const int64_t lo = chunk * a.chunk, end = lo + a.chunk;
      add_columns<kWidth>(s, a, static_cast<const char*>(a.x) + o.in + j * kWidth * line.stride, lo,
                          end < a.terms ? end : a.terms);
    }
    State* mine = shared + (threadIdx.y * blockDim.x + threadIdx.x) * kWidth;
    for (unsigned d = blockDim.y / 2; d > 0; d /= 2) {
      __syncthreads();
      if (threadIdx.y >= d && threadIdx.y < 2 * d)
        for (int c = 0; c < kWidth; ++c) mine[c] = s[c];
      __syncthreads();
      if (threadIdx.y < d)
        for (int c = 0; c < kWidth; ++c) s[c].merge(mine[d * blockDim.x * kWidth + c]);
    }
    if (threadIdx.y == 0 && j < threads)
      for (int c = 0; c < kWidth; ++c)
        put(a, s[c], row * line.size + j * kWidth + c, chunk, o.out + (j * kWidth + c) * line.out);
  }
}

// Rows of threads reduce adjacent columns. blockDim.y is a power of two.
COGRAD_BLOCK_KERNEL(reduce_columns, ReduceArgs, kReduceThreads) { reduce_columns_of<1>(a); }
COGRAD_BLOCK_KERNEL(reduce_column_packs, ReduceArgs, kReduceThreads) {
  reduce_columns_of<kColumns>(a);
}

// A warp merges the pieces of an output.
COGRAD_BLOCK_KERNEL(reduce_pieces, ReduceArgs, kReduceThreads) {
  for (int64_t output = static_cast<int64_t>(blockIdx.x) * kGroups + warp(); output < a.outputs;
       output += static_cast<int64_t>(gridDim.x) * kGroups) {
    State s;
    s.init();
    for (int64_t c = lane(); c < a.chunks; c += 32) s.merge(partial_of(a)[output * a.chunks + c]);
    for (int d = 16; d > 0; d /= 2) s.merge(shuffle_down(s, d));
    if (lane() == 0) s.finish(a, locate(a.kept, a.nkept, a.wide, output).out);
  }
}

}  // namespace cograd::device
