// SPDX-License-Identifier: BSD-3-Clause
// Layer normalisation of rows. As in softmax.h, a row is read once, a long one again from the
// cache.
#pragma once
#include "cuda/args/norm_args.h"
#include "cuda/text/rows.h"

namespace cograd::device {

inline double wide_sum(double v) {
  return reduce_group(v, [](double p, double q) { return p + q; });
}
inline Computed at_or(const void* p, int64_t i, Computed otherwise) {
  return p == nullptr ? otherwise : load(static_cast<const Element*>(p), i);
}

COGRAD_BLOCK_KERNEL(layer_norm_forward, LayerNormArgs, kBlock) {
  each_row(a.rows, a.n, [&](int64_t r, int64_t n) {
    const Element* x = static_cast<const Element*>(a.x) + r * a.n;
    const double count = static_cast<double>(a.n);
    Row row;
    row.read(x, n, 0);
    Computed sum = 0, squares = 0;
    each_value(n, x, row, [&](Computed v) { sum += v; });
    const Computed mean = static_cast<Computed>(wide_sum(static_cast<double>(sum)) / count);
    each_value(n, x, row, [&](Computed v) { squares += (v - mean) * (v - mean); });
    const double m2 = wide_sum(static_cast<double>(squares));
    const Computed rstd = static_cast<Computed>(1 / sqrt(m2 / count + a.eps));
    if (n != 0 && member() == 0) {
      static_cast<Computed*>(a.mean)[r] = mean;
      static_cast<Computed*>(a.rstd)[r] = rstd;
    }
    write_row(
        static_cast<Element*>(a.y) + r * a.n, n, [&](int64_t i) { row.load_at(x, 0, i); },
        [&](int place, int64_t i) {
          const Computed hat = (row.v[place] - mean) * rstd;
          return hat * at_or(a.weight, i, 1) + at_or(a.bias, i, 0);
        });
  });
}

// Computes gx = rstd * (h - mean(h) - hat * mean(h * hat)) for h = g * weight.
COGRAD_BLOCK_KERNEL(layer_norm_backward, LayerNormArgs, kBlock) {
  each_row(a.rows, a.n, [&](int64_t r, int64_t n) {
    const Element* x = static_cast<const Element*>(a.x) + r * a.n;
    const Element* g = static_cast<const Element*>(a.g) + r * a.n;
    const double count = static_cast<double>(a.n);
    const Computed mean = static_cast<const Computed*>(a.mean)[r];
    const Computed rstd = static_cast<const Computed*>(a.rstd)[r];
    Row xs, gs;
    xs.read(x, n, 0);
    gs.read(g, n, 0);
    Computed sum = 0, dot = 0;
    each_pair(n, g, gs, x, xs, [&](Computed p, Computed v, int64_t i) {
      const Computed h = p * at_or(a.weight, i, 1);
      sum += h;
      dot += h * ((v - mean) * rstd);
    });
    const Computed m1 = static_cast<Computed>(wide_sum(static_cast<double>(sum)) / count);
    const Computed m2 = static_cast<Computed>(wide_sum(static_cast<double>(dot)) / count);
    write_row(
        static_cast<Element*>(a.y) + r * a.n, n,
        [&](int64_t i) {
          xs.load_at(x, 0, i);
          gs.load_at(g, 0, i);
        },
        [&](int place, int64_t i) {
          const Computed hat = (xs.v[place] - mean) * rstd;
          return rstd * (gs.v[place] * at_or(a.weight, i, 1) - m1 - hat * m2);
        });
  });
}

// Blocks of 32 by 8 threads add up 32 columns of a piece of the rows.
COGRAD_BLOCK_KERNEL(layer_norm_sums, LayerNormSums, 256) {
  COGRAD_SHARED double shared[2][8][32];
  const int64_t tiles = (a.n + 31) / 32, works = tiles * a.chunks;
  for (int64_t work = blockIdx.x; work < works; work += gridDim.x) {
    const int64_t chunk = work / tiles, j = (work - chunk * tiles) * 32 + threadIdx.x;
    const int64_t lo = chunk * a.chunk, end = lo + a.chunk, hi = end < a.rows ? end : a.rows;
    double dot = 0, sum = 0;
    if (j < a.n) {
      for (int64_t r = lo + threadIdx.y; r < hi; r += 8) {
        const Computed g = load(static_cast<const Element*>(a.g), r * a.n + j);
        sum += static_cast<double>(g);
        if (a.gweight != nullptr) {
          const Computed x = load(static_cast<const Element*>(a.x), r * a.n + j);
          const Computed mean = static_cast<const Computed*>(a.mean)[r];
          dot += static_cast<double>(g * ((x - mean) * static_cast<const Computed*>(a.rstd)[r]));
        }
      }
    }
    __syncthreads();
    shared[0][threadIdx.y][threadIdx.x] = dot;
    shared[1][threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y < 2 && j < a.n) {
      double all = 0;
      for (int y = 0; y < 8; ++y) all += shared[threadIdx.y][y][threadIdx.x];
      a.partial[(threadIdx.y * a.chunks + chunk) * a.n + j] = all;
    }
  }
}
COGRAD_KERNEL(layer_norm_totals, LayerNormSums, 256) {
  for (int64_t i = grid_index(); i < 2 * a.n; i += grid_size()) {
    const int64_t which = i / a.n, j = i - which * a.n;
    void* out = which == 0 ? a.gweight : a.gbias;
    if (out == nullptr) continue;
    double all = 0;
    for (int64_t c = 0; c < a.chunks; ++c) all += a.partial[(which * a.chunks + c) * a.n + j];
    store(static_cast<Element*>(out), j, static_cast<Computed>(all));
  }
}

}  // namespace cograd::device
