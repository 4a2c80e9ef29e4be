// SPDX-License-Identifier: BSD-3-Clause
// softmax and log_softmax (-DCOGRAD_MODE) of rows. A row is read from memory once, a long one twice
// (backward, too), the second time mostly from the L2 cache: the bound is the memory's bandwidth.
#pragma once
#include "cuda/args/softmax_args.h"
#include "cuda/text/rows.h"

namespace cograd::device {

inline constexpr int kMode = COGRAD_MODE;
inline constexpr bool kLog = kMode == kLogSoftmax || kMode == kLogSoftmaxBackward;

// The sum of exp(x - max) of the values seen so far. NaN, +inf, and a row of -inf only, make the
// results NaN, through x - max.
struct Online {
  Computed max, sum;
  void add(Computed v) {
    if (v > max) {
      sum *= exp(max - v);
      max = v;
    }
    sum += v == -infinity() ? Computed(0) : exp(v - max);
  }
};
inline Online merged(Online a, Online b) {
  const Computed m = a.max > b.max ? a.max : b.max;
  const Computed p = a.max == m ? a.sum : a.sum * exp(a.max - m);
  const Computed q = b.max == m ? b.sum : b.sum * exp(b.max - m);
  return {m, p + q};
}

inline void forward_row(const Element* x, Element* y, int64_t n) {
  Row row;
  row.read(x, n, -infinity());
  Online all{-infinity(), 0};
  if constexpr (kLong) {
    each_value(n, x, row, [&](Computed v) { all.add(v); });
    all = reduce_group(all, merged);
  } else {
    COGRAD_UNROLL
    for (int k = 0; k < kPer; ++k) all.max = all.max > row.v[k] ? all.max : row.v[k];
    all.max = reduce_group(all.max, [](Computed p, Computed q) { return p > q ? p : q; });
    COGRAD_UNROLL
    for (int k = 0; k < kPer; ++k) {
      const Computed d = row.v[k] - all.max, e = exp(d);
      all.sum += e;
      row.v[k] = kLog ? d : e;
    }
    all.sum = sum_of_group(all.sum);
  }
  const Computed shift = log(all.sum), scale = Computed(1) / all.sum;
  write_row(
      y, n, [&](int64_t i) { row.load_at(x, 0, i); },
      [&](int place, int64_t) {
        if constexpr (kLong)
          return kLog ? (row.v[place] - all.max) - shift : exp(row.v[place] - all.max) * scale;
        else
          return kLog ? row.v[place] - shift : row.v[place] * scale;
      });
}

inline void backward_row(const Element* g, const Element* y, Element* out, int64_t n) {
  Row gs, ys;
  gs.read(g, n, 0);
  ys.read(y, n, 0);
  Computed sum = 0;
  each_pair(n, g, gs, y, ys, [&](Computed p, Computed q, int64_t) { sum += kLog ? p : p * q; });
  sum = sum_of_group(sum);
  write_row(
      out, n,
      [&](int64_t i) {
        gs.load_at(g, 0, i);
        ys.load_at(y, 0, i);
      },
      [&](int place, int64_t) {
        const Computed p = gs.v[place], q = ys.v[place];
        return kLog ? p - exp(q) * sum : q * (p - sum);
      });
}

COGRAD_BLOCK_KERNEL(softmax_rows, SoftmaxArgs, kBlock) {
  each_row(a.rows, a.n, [&](int64_t row, int64_t n) {
    const Element* p = static_cast<const Element*>(a.a) + row * a.n;
    Element* out = static_cast<Element*>(a.out) + row * a.n;
    if constexpr (kMode == kSoftmax || kMode == kLogSoftmax)
      forward_row(p, out, n);
    else
      backward_row(p, static_cast<const Element*>(a.b) + row * a.n, out, n);
  });
}

// Along a dim that is not the last: threads of equal y have adjacent columns and share a column's
// elements with the other y. a.rows is the number of columns in all.
COGRAD_BLOCK_KERNEL(softmax_columns, SoftmaxArgs, 256) {
  COGRAD_SHARED uint64_t room[256 * ((sizeof(Online) + 7) / 8)];
  Online* shared = reinterpret_cast<Online*>(room);
  constexpr bool kForward = kMode == kSoftmax || kMode == kLogSoftmax;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x; first < a.rows;
       first += step) {
    const int64_t column = first + threadIdx.x;
    const bool here = column < a.rows;
    const int64_t o = column / a.inner, base = o * a.n * a.inner + column % a.inner;
    const Element* p = static_cast<const Element*>(a.a) + base;
    const Element* q = static_cast<const Element*>(a.b) + base;
    Element* out = static_cast<Element*>(a.out) + base;
    Online all{-infinity(), 0};
    for (int64_t i = threadIdx.y; here && i < a.n; i += blockDim.y) {
      const Computed v = load(p, i * a.inner);
      if constexpr (kForward)
        all.add(v);
      else
        all.sum += kLog ? v : v * load(q, i * a.inner);
    }
    for (unsigned d = blockDim.y / 2; d > 0; d /= 2) {
      __syncthreads();
      shared[threadIdx.y * blockDim.x + threadIdx.x] = all;
      __syncthreads();
      if (threadIdx.y < d) {
        const Online other = shared[(threadIdx.y + d) * blockDim.x + threadIdx.x];
        if constexpr (kForward)
          all = merged(all, other);
        else
          all.sum += other.sum;
      }
    }
    __syncthreads();
    if (threadIdx.y == 0) shared[threadIdx.x] = all;
    __syncthreads();
    all = shared[threadIdx.x];
    const Computed shift = log(all.sum), scale = Computed(1) / all.sum;
    for (int64_t i = threadIdx.y; here && i < a.n; i += blockDim.y) {
      const int64_t at = i * a.inner;
      const Computed v = load(p, at);
      if constexpr (kForward) {
        const Computed d = v - all.max;
        store(out, at, kLog ? d - shift : exp(d) * scale);
      } else {
        const Computed y = load(q, at);
        store(out, at, kLog ? v - exp(y) * all.sum : y * (v - all.sum));
      }
    }
  }
}

}  // namespace cograd::device
