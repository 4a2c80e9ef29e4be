// SPDX-License-Identifier: BSD-3-Clause
// Batch, group and instance normalisation: statistics of groups in pieces, then maps of elements.
// One load reads COGRAD_VEC elements (an option of the compiler), all of one segment. x is read
// twice, and memory limits the speed.
#pragma once
#include "cuda/args/groups_args.h"
#include "cuda/text/reduce_leaf.h"

namespace cograd::device {

inline constexpr int kVec = COGRAD_VEC;

struct Dot {
  double sum, dot;
};

template <class State, class F>
inline State merge_threads(State s, F&& merge) {
  constexpr int kWarps = kGroupThreads / 32;
  COGRAD_SHARED uint64_t room[kWarps * ((sizeof(State) + 7) / 8)];
  State* shared = reinterpret_cast<State*>(room);
  for (int d = 16; d > 0; d /= 2) merge(s, shuffle_down(s, d));
  __syncthreads();  // the round before may still read
  if (lane() == 0) shared[warp()] = s;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < kWarps; ++w) merge(s, shared[w]);
  return s;
}
// Merges the states of threads with equal x; y = 0 gets them.
template <class State, class F>
inline State merge_columns(State s, F&& merge) {
  COGRAD_SHARED uint64_t room[kGroupThreads * ((sizeof(State) + 7) / 8)];
  State* shared = reinterpret_cast<State*>(room);
  State* mine = shared + threadIdx.y * blockDim.x + threadIdx.x;
  __syncthreads();
  *mine = s;
  for (unsigned d = blockDim.y / 2; d > 0; d /= 2) {
    __syncthreads();
    if (threadIdx.y < d) merge(*mine, mine[d * blockDim.x]);
  }
  return *mine;
}

inline int64_t first_of(const GroupArgs& a, int64_t g) {
  return g / a.wrap * a.outer + g % a.wrap * a.inner;
}
inline int64_t weight_at(const GroupArgs& a, int64_t g, int64_t s) {
  return g % a.wrap * a.per_group + s * a.per_segment;
}
inline Computed coefficient(const void* p, int64_t i, Computed otherwise) {
  return p == nullptr ? otherwise : load(static_cast<const Element*>(p), i);
}
inline Computed* stat(void* p) { return static_cast<Computed*>(p); }
inline int64_t quotient(int64_t i, int64_t n) {
  return (i | n) >> 32 == 0 ? static_cast<uint32_t>(i) / static_cast<uint32_t>(n) : i / n;
}

struct MergeVar {
  void operator()(Var& a, const Var& b) const { a.merge(b); }
};
struct MergeDot {
  void operator()(Dot& a, const Dot& b) const {
    a.sum += b.sum;
    a.dot += b.dot;
  }
};

// A block computes the statistics of a piece of a group.
COGRAD_BLOCK_KERNEL(group_stats, GroupArgs, kGroupThreads) {
  const ReduceArgs unused{};
  const int64_t loads = a.segments * a.length / kVec, per_segment = a.length / kVec;
  for (int64_t work = blockIdx.x; work < a.groups * a.chunks; work += gridDim.x) {
    const int64_t g = work / a.chunks, chunk = work - g * a.chunks, lo = chunk * a.chunk;
    const int64_t hi = lo + a.chunk < loads ? lo + a.chunk : loads;
    const Element* x = static_cast<const Element*>(a.x) + first_of(a, g);
    const auto read = [&](int64_t k, Computed* v) {
      const int64_t s = quotient(k, per_segment);
      const Element* p = x + s * a.step + (k - s * per_segment) * kVec;
      const auto pack = *reinterpret_cast<const Pack<Element, kVec>*>(p);
      COGRAD_UNROLL
      for (int j = 0; j < kVec; ++j) v[j] = load(&pack.v[j]);
    };
    Var s;
    s.init();
    int64_t k = lo + threadIdx.x;
    for (; k + 3 * kGroupThreads < hi; k += 4 * kGroupThreads) {
      Computed v[4 * kVec];
      COGRAD_UNROLL
      for (int u = 0; u < 4; ++u) read(k + u * kGroupThreads, v + u * kVec);
      s.add<4 * kVec>(v, {0, 0, 1}, unused);
    }
    for (; k < hi; k += kGroupThreads) {
      Computed v[kVec];
      read(k, v);
      s.add<kVec>(v, {0, 0, 1}, unused);
    }
    s = merge_threads(s, MergeVar{});
    if (threadIdx.x == 0) static_cast<Var*>(a.partial)[work] = s;
  }
}
COGRAD_BLOCK_KERNEL(column_stats, GroupArgs, kGroupThreads) {
  const ReduceArgs unused{};
  const int64_t tiles = (a.groups + blockDim.x - 1) / blockDim.x;
  for (int64_t work = blockIdx.x; work < tiles * a.chunks; work += gridDim.x) {
    const int64_t chunk = work / tiles, g = (work - chunk * tiles) * blockDim.x + threadIdx.x;
    const int64_t lo = chunk * a.chunk, hi = lo + a.chunk < a.segments ? lo + a.chunk : a.segments;
    const Element* x = static_cast<const Element*>(a.x) + g;
    Var s;
    s.init();
    const int64_t step = blockDim.y;
    int64_t i = g < a.groups ? lo + threadIdx.y : hi;
    for (; i + 3 * step < hi; i += 4 * step) {
      Computed v[4];
      COGRAD_UNROLL
      for (int u = 0; u < 4; ++u) v[u] = load(x, (i + u * step) * a.step);
      s.add<4>(v, {0, 0, 1}, unused);
    }
    for (; i < hi; i += step) {
      const Computed v = load(x, i * a.step);
      s.add<1>(&v, {0, 0, 1}, unused);
    }
    s = merge_columns(s, MergeVar{});
    if (threadIdx.y == 0 && g < a.groups) static_cast<Var*>(a.partial)[g * a.chunks + chunk] = s;
  }
}
COGRAD_KERNEL(group_finish, GroupArgs, kGroupThreads) {
  for (int64_t g = grid_index(); g < a.groups; g += grid_size()) {
    Var s;
    s.init();
    for (int64_t c = 0; c < a.chunks; ++c)
      s.merge(static_cast<const Var*>(a.partial)[g * a.chunks + c]);
    const double var = s.m2 / s.count;
    stat(a.mean)[g] = static_cast<Computed>(s.count == 0 ? HUGE_VAL - HUGE_VAL : s.mean);
    stat(a.rstd)[g] = static_cast<Computed>(1 / sqrt(var + a.eps));
    if (a.var != nullptr) stat(a.var)[g] = static_cast<Computed>(var);
  }
}

// A Spot says where load k of the whole array is.
struct Spot {
  int64_t group, segment, at;
};
inline Spot spot_of(const GroupArgs& a, int64_t k) {
  if (a.columns) {
    const int64_t s = quotient(k, a.groups);
    return {k - s * a.groups, s, s * a.step + (k - s * a.groups)};
  }
  const int64_t per_segment = a.length / kVec, line = quotient(k, per_segment);
  const int64_t g = quotient(line, a.segments), s = line - g * a.segments;
  return {g, s, first_of(a, g) + s * a.step + (k - line * per_segment) * kVec};
}

COGRAD_KERNEL(group_apply, GroupArgs, kGroupThreads) {
  const int64_t loads = a.groups * a.segments * a.length / kVec;
  for (int64_t k = grid_index(); k < loads; k += grid_size()) {
    const Spot p = spot_of(a, k);
    const int64_t w = weight_at(a, p.group, p.segment);
    const Computed m = stat(a.mean)[p.group], b = coefficient(a.bias, w, 0);
    const Computed scale = stat(a.rstd)[p.group] * coefficient(a.weight, w, 1);
    auto v = *reinterpret_cast<const Pack<Element, kVec>*>(static_cast<const Element*>(a.x) + p.at);
    COGRAD_UNROLL
    for (int j = 0; j < kVec; ++j) v.v[j] = Element((load(&v.v[j]) - m) * scale + b);
    *reinterpret_cast<Pack<Element, kVec>*>(static_cast<Element*>(a.y) + p.at) = v;
  }
}

// a.lanes threads, 32 or all of a block, compute the sums of a segment.
COGRAD_BLOCK_KERNEL(segment_sums, GroupArgs, kGroupThreads) {
  const int per_block = kGroupThreads / a.lanes, me = static_cast<int>(threadIdx.x) % a.lanes;
  const int64_t works = a.groups * a.segments;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * per_block; first < works;
       first += static_cast<int64_t>(gridDim.x) * per_block) {
    const int64_t work = first + threadIdx.x / a.lanes, g = work / a.segments;
    Dot d{0, 0};
    if (work < works) {
      const int64_t at = first_of(a, g) + (work - g * a.segments) * a.step;
      const Element* x = static_cast<const Element*>(a.x) + at;
      const Element* q = static_cast<const Element*>(a.g) + at;
      const Computed m = stat(a.mean)[g];
      for (int64_t i = me * kVec; i < a.length; i += static_cast<int64_t>(a.lanes) * kVec) {
        const auto xs = *reinterpret_cast<const Pack<Element, kVec>*>(x + i);
        const auto gs = *reinterpret_cast<const Pack<Element, kVec>*>(q + i);
        Computed sum = 0, dot = 0;
        COGRAD_UNROLL
        for (int j = 0; j < kVec; ++j) {
          const Computed v = load(&gs.v[j]);
          sum += v;
          dot += v * (load(&xs.v[j]) - m);
        }
        d.sum += static_cast<double>(sum);
        d.dot += static_cast<double>(dot);
      }
    }
    if (a.lanes == 32) {
      for (int k = 16; k > 0; k /= 2) MergeDot{}(d, shuffle_down(d, k));
    } else {
      d = merge_threads(d, MergeDot{});
    }
    if (me == 0 && work < works) {
      a.sums[work] = d.sum;
      a.dots[work] = d.dot * static_cast<double>(stat(a.rstd)[g]);
    }
  }
}
// Columns: pieces of the sums of groups. The group's first segment gets them, the others 0.
COGRAD_BLOCK_KERNEL(column_sums, GroupArgs, kGroupThreads) {
  const int64_t tiles = (a.groups + blockDim.x - 1) / blockDim.x;
  for (int64_t work = blockIdx.x; work < tiles * a.chunks; work += gridDim.x) {
    const int64_t chunk = work / tiles, g = (work - chunk * tiles) * blockDim.x + threadIdx.x;
    const int64_t lo = chunk * a.chunk, hi = lo + a.chunk < a.segments ? lo + a.chunk : a.segments;
    Dot d{0, 0};
    if (g < a.groups) {
      const Computed m = stat(a.mean)[g];
      for (int64_t i = lo + threadIdx.y; i < hi; i += blockDim.y) {
        const int64_t at = i * a.step + g;
        const Computed v = load(static_cast<const Element*>(a.g), at);
        d.sum += static_cast<double>(v);
        d.dot += static_cast<double>(v * (load(static_cast<const Element*>(a.x), at) - m));
        a.sums[g * a.segments + i] = a.dots[g * a.segments + i] = 0;
      }
    }
    d = merge_columns(d, MergeDot{});
    if (threadIdx.y == 0 && g < a.groups) static_cast<Dot*>(a.partial)[g * a.chunks + chunk] = d;
  }
}
COGRAD_KERNEL(column_finish, GroupArgs, kGroupThreads) {
  for (int64_t g = grid_index(); g < a.groups; g += grid_size()) {
    Dot d{0, 0};
    for (int64_t c = 0; c < a.chunks; ++c)
      MergeDot{}(d, static_cast<const Dot*>(a.partial)[g * a.chunks + c]);
    a.sums[g * a.segments] = d.sum;
    a.dots[g * a.segments] = d.dot * static_cast<double>(stat(a.rstd)[g]);
  }
}
// A warp adds up the segments of a group by their weights.
COGRAD_BLOCK_KERNEL(group_totals, GroupArgs, kGroupThreads) {
  for (int64_t g = static_cast<int64_t>(blockIdx.x) * (kGroupThreads / 32) + warp(); g < a.groups;
       g += static_cast<int64_t>(gridDim.x) * (kGroupThreads / 32)) {
    Dot d{0, 0};
    for (int64_t s = lane(); s < (a.columns ? 1 : a.segments); s += 32) {
      const double w = static_cast<double>(coefficient(a.weight, weight_at(a, g, s), 1));
      d.sum += a.sums[g * a.segments + s] * w;
      d.dot += a.dots[g * a.segments + s] * w;
    }
    for (int k = 16; k > 0; k /= 2) MergeDot{}(d, shuffle_down(d, k));
    if (lane() == 0) {
      a.totals[2 * g] = d.sum;
      a.totals[2 * g + 1] = d.dot;
    }
  }
}
COGRAD_KERNEL(group_backward, GroupArgs, kGroupThreads) {
  const int64_t loads = a.groups * a.segments * a.length / kVec;
  const double count = static_cast<double>(a.segments) * static_cast<double>(a.length);
  for (int64_t k = grid_index(); k < loads; k += grid_size()) {
    const Spot p = spot_of(a, k);
    const Computed m = stat(a.mean)[p.group], rstd = stat(a.rstd)[p.group];
    const double r = static_cast<double>(rstd);
    const Computed scale = rstd * coefficient(a.weight, weight_at(a, p.group, p.segment), 1);
    Computed shift = 0, slope = 0;
    if (!a.given) {
      shift = static_cast<Computed>(-r * a.totals[2 * p.group] / count);
      slope = static_cast<Computed>(-r * r * a.totals[2 * p.group + 1] / count);
    }
    const auto xs =
        *reinterpret_cast<const Pack<Element, kVec>*>(static_cast<const Element*>(a.x) + p.at);
    auto gs =
        *reinterpret_cast<const Pack<Element, kVec>*>(static_cast<const Element*>(a.g) + p.at);
    COGRAD_UNROLL
    for (int j = 0; j < kVec; ++j)
      gs.v[j] = Element(load(&gs.v[j]) * scale + ((load(&xs.v[j]) - m) * slope + shift));
    *reinterpret_cast<Pack<Element, kVec>*>(static_cast<Element*>(a.y) + p.at) = gs;
  }
}

// A warp adds the terms of a weight to its total.
COGRAD_BLOCK_KERNEL(add_by_weight, WeightArgs, kGroupThreads) {
  for (int64_t w = static_cast<int64_t>(blockIdx.x) * (kGroupThreads / 32) + warp(); w < a.weights;
       w += static_cast<int64_t>(gridDim.x) * (kGroupThreads / 32)) {
    // Either all segments of a group have one weight, or each has its own.
    const int64_t group = w / a.per_group, only = w - group * a.per_group;
    const int64_t each = a.per_segment == 0 ? a.segments : 1;
    const int64_t n = (a.groups - group + a.wrap - 1) / a.wrap * each;
    double sum = 0;
    for (int64_t i = lane(); i < n; i += 32) {
      const int64_t k = i / each, s = a.per_segment == 0 ? i - k * each : only;
      sum += a.terms[(group + k * a.wrap) * a.segments + s];
    }
    for (int k = 16; k > 0; k /= 2) sum += shuffle_down(sum, k);
    if (lane() == 0) a.totals[w] += sum;
  }
}

}  // namespace cograd::device
