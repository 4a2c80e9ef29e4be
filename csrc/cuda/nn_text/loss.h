// SPDX-License-Identifier: BSD-3-Clause
// Negative log likelihood and the gradients of it and of cross entropy. Sums are computed in
// double, in an order that depends on the sizes alone. A target outside of the classes counts as
// ignored: the host has checked it before, or learns of it later.
#pragma once
#include "cuda/args/loss_args.h"
#include "cuda/text/functions.h"
#include "cuda/text/late.h"

namespace cograd::device {

using Element = COGRAD_T;
using Computed = compute_t<Element>;

inline int64_t target_at(const LossArgs& a, int64_t i) {
  const int64_t t = a.target[i];
  return t >= 0 && t < a.classes ? t : a.ignore_index;
}
inline Computed weight_of(const LossArgs& a, int64_t c) {
  return a.weight == nullptr ? Computed(1) : load(static_cast<const Element*>(a.weight), c);
}
inline const Element* at(const void* p, int64_t i) { return static_cast<const Element*>(p) + i; }
inline double sum_of_warp(double v) {
  for (int d = 16; d > 0; d /= 2) v += shuffle_xor(v, d);
  return v;
}
// The sum over the block, for thread 0.
inline double sum_of_block(double v) {
  COGRAD_SHARED double shared[kLossThreads / 32];
  v = sum_of_warp(v);
  __syncthreads();
  if (lane() == 0) shared[warp()] = v;
  __syncthreads();
  double all = 0;
  for (int w = 0; w < kLossThreads / 32; ++w) all += shared[w];
  return all;
}

COGRAD_BLOCK_KERNEL(nll_forward, LossArgs, kLossThreads) {
  const int64_t positions = a.batch * a.spatial, step = a.blocks * (kLossThreads / a.lanes);
  const int me = static_cast<int>(threadIdx.x) % a.lanes;
  double losses = 0, weights = 0;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * (kLossThreads / a.lanes);
       first < positions; first += step) {
    const int64_t i = first + threadIdx.x / a.lanes;
    const int64_t t = i < positions ? target_at(a, i) : a.ignore_index;
    double loss = 0;
    if (a.late != nullptr && i < positions && me == 0) {
      const int64_t given = a.target[i];
      if (given != a.ignore_index && (given < 0 || given >= a.classes))
        report(a.late, kIndexError, a.op, given, a.classes);
    }
    if (t != a.ignore_index) {
      const int64_t row = i / a.spatial, base = row * a.classes * a.spatial + (i - row * a.spatial);
      const double w = static_cast<double>(weight_of(a, t));
      if (me == 0) {
        loss = -a.hit * w * static_cast<double>(load(at(a.logp, base + t * a.spatial)));
        weights += w;
      }
      for (int64_t c = me; a.spread != 0 && c < a.classes; c += a.lanes)
        loss -= a.spread * static_cast<double>(weight_of(a, c)) *
                static_cast<double>(load(at(a.logp, base + c * a.spatial)));
    }
    if (a.lanes == 32) loss = sum_of_warp(loss);
    if (me == 0 && i < positions) {
      losses += loss;
      if (a.reduction == 0) store(static_cast<Element*>(a.out), i, static_cast<Computed>(loss));
    }
  }
  losses = sum_of_block(losses);
  weights = sum_of_block(weights);
  if (threadIdx.x == 0) {
    a.partial[2 * blockIdx.x] = losses;
    a.partial[2 * blockIdx.x + 1] = weights;
  }
}
COGRAD_BLOCK_KERNEL(nll_total, LossArgs, kLossThreads) {
  double losses = 0, weights = 0;
  for (int64_t i = threadIdx.x; i < a.blocks; i += kLossThreads) {
    losses += a.partial[2 * i];
    weights += a.partial[2 * i + 1];
  }
  losses = sum_of_block(losses);
  weights = sum_of_block(weights);
  if (threadIdx.x != 0) return;
  store(static_cast<Element*>(a.total_weight), static_cast<Computed>(weights));
  if (a.reduction != 0)
    store(static_cast<Element*>(a.out),
          static_cast<Computed>(a.reduction == 1 ? losses / weights : losses));
}

// A Position holds what the gradient there consists of.
struct Position {
  int64_t target, base;
  bool ignored;
  Computed hit, spread, all;  // factors of the target's class, of every class, of softmax
};
inline Position position_of(const LossArgs& a, int64_t i) {
  const int64_t row = i / a.spatial, t = target_at(a, i);
  Position p{t, row * a.classes * a.spatial + (i - row * a.spatial), t == a.ignore_index, 0, 0, 0};
  if (p.ignored) return p;
  double scale = static_cast<double>(load(at(a.gout, a.reduction == 0 ? i : 0)));
  if (a.reduction == 1) scale /= static_cast<double>(load(at(a.total_weight, 0)));
  const double hit = a.hit * static_cast<double>(weight_of(a, t));
  const double every = a.weight_sum == nullptr ? static_cast<double>(a.classes) : *a.weight_sum;
  p.hit = static_cast<Computed>(scale * hit);
  p.spread = static_cast<Computed>(scale * a.spread);
  p.all = static_cast<Computed>(scale * (hit + a.spread * every));
  return p;
}
inline void write_gradient(const LossArgs& a, const Position& p, int64_t c) {
  const int64_t k = p.base + c * a.spatial;
  Computed v = 0;
  if (!p.ignored) {
    if (a.softmax) v = exp(load(at(a.logp, k))) * p.all;
    if (a.spread != 0) v -= p.spread * weight_of(a, c);
    if (c == p.target) v -= p.hit;
  }
  store(static_cast<Element*>(a.out), k, v);
}

// A block writes a row of classes.
COGRAD_KERNEL(loss_gradient_rows, LossArgs, kLossThreads) {
  for (int64_t i = blockIdx.x; i < a.batch; i += gridDim.x) {
    const Position p = position_of(a, i);
    for (int64_t c = threadIdx.x; c < a.classes; c += blockDim.x) write_gradient(a, p, c);
  }
}
// A thread writes all classes of a position; its neighbours write the next positions.
COGRAD_KERNEL(loss_gradient_columns, LossArgs, kLossThreads) {
  for (int64_t i = grid_index(); i < a.batch * a.spatial; i += grid_size()) {
    const Position p = position_of(a, i);
    for (int64_t c = 0; c < a.classes; ++c) write_gradient(a, p, c);
  }
}

}  // namespace cograd::device
