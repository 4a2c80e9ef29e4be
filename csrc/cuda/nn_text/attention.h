// SPDX-License-Identifier: BSD-3-Clause
// Attention without an array of rows x keys: each block of threads goes through the keys, and keeps
// of each of its rows the largest score, the sum of weights and the weighted sum of values so far.
#include "attention_parts.h"

namespace cograd::device {

inline constexpr AttentionTiles kTiles = tiles_of(true);
inline constexpr int kRows = kTiles.rows(), kTall = kTiles.tall, kOthers = kTiles.others;

// The part of a softmax that a warp has computed of its rows; sums are those of the thread's keys.
struct Softmax {
  C top[kTall][2], sum[kTall][2];
  Softmax() {
    COGRAD_UNROLL
    for (int h = 0; h < kTall; ++h) COGRAD_UNROLL
    for (int i = 0; i < 2; ++i) {
      top[h][i] = never();
      sum[h][i] = C(0);
    }
  }
  // Turns scores into weights relative to the largest score so far.
  void add(Product<kTall, kOthers / 8>& s, Product<kTall, kWide>& out) {
    COGRAD_UNROLL
    for (int h = 0; h < kTall; ++h) COGRAD_UNROLL
    for (int i = 0; i < 2; ++i) {
      C now = top[h][i];
      COGRAD_UNROLL
      for (int j = 0; j < kOthers / 8; ++j) COGRAD_UNROLL
      for (int e = 2 * i; e < 2 * i + 2; ++e) now = s.at[h][j][e] > now ? s.at[h][j][e] : now;
      now = fold_row(now, [](C p, C q) { return p > q ? p : q; });
      const C shift = now == never() ? C(0) : now;
      const C fade = weight_of(top[h][i] - shift);
      C part = C(0);
      COGRAD_UNROLL
      for (int j = 0; j < kOthers / 8; ++j) COGRAD_UNROLL
      for (int e = 2 * i; e < 2 * i + 2; ++e)
        part += s.at[h][j][e] = weight_of(s.at[h][j][e] - shift);
      COGRAD_UNROLL
      for (int j = 0; j < kWide; ++j) COGRAD_UNROLL
      for (int e = 2 * i; e < 2 * i + 2; ++e) out.at[h][j][e] *= fade;
      sum[h][i] = sum[h][i] * fade + part;
      top[h][i] = now;
    }
  }
};

inline void attend(const AttentionArgs& a, int64_t n, int64_t first, Kept* shared) {
  constexpr int kThreads = kTiles.threads();
  Kept* const keys = shared + (kMma ? 0 : kRows * kStep);
  Kept* const values = keys + kOthers * kStep;
  C* const scratch =
      reinterpret_cast<C*>(values + kOthers * kStep) + warp() * 16 * kTiles.scratch_step();
  const T *k = matrix(a, a.k, n, a.group), *v = matrix(a, a.v, n, a.group);
  __syncthreads();  // the block before may still be read
  fetch<kThreads>(shared, kRows, a.q, matrix(a, a.q, n), first, a.rows, a.size);
  arrived();
  __syncthreads();
  const int64_t own = first + warp() * 16 * kTall;
  const LoadedRows<kTall> q(OwnRows<kTall>{shared + warp() * 16 * kTall * kStep});
  const Scores scores(a, n);
  const Dropout dropout(a, n);
  Product<kTall, kWide> out;
  Softmax softmax;
  const int64_t seen = a.causal && first + kRows < a.keys ? first + kRows : a.keys;
  __syncthreads();
  fetch<kThreads>(keys, kOthers, a.k, k, 0, a.keys, a.size);
  for (int64_t key = 0; key < seen; key += kOthers) {
    // The values come while keys are multiplied, and the next keys while values are.
    // It is true if a row of the warp sees these keys.
    const bool needed = own < a.rows && (!a.causal || key < own + 16 * kTall);
    Product<kTall, kOthers / 8> s;
    arrived();
    __syncthreads();
    fetch<kThreads>(values, kOthers, a.v, v, key, a.keys, a.value_size);
    if (needed) multiply_rows(s, q, keys);
    __syncthreads();
    const int64_t next = key + kOthers;
    fetch<kThreads>(keys, next < seen ? kOthers : 0, a.k, k, next, a.keys, a.size);
    if (needed) {
      scores.mask_all<false>(s, own, key);
      softmax.add(s, out);
      if constexpr (kWithDropout) {
        const uint64_t kept = dropout.bits<false, kTall, kOthers / 8>(own, key);
        s.each([&](int h, int j, int e, C& w) {
          if ((kept >> (h * (kOthers / 2) + 4 * j + e) & 1) == 0) w = C(0);
        });
      }
    }
    arrived<1>();
    __syncthreads();
    if (needed) multiply_weights(out, s, values, scratch);
  }
  arrived();
  C* const tops = static_cast<C*>(a.tops) + (a.first + n) * a.rows;
  C* const inverses = static_cast<C*>(a.inverses) + (a.first + n) * a.rows;
  write_rows(a.out, offset_of(a, a.out, n, 1), out, own, a.rows, a.value_size, [&](int h, int i) {
    const C sum = fold_row(softmax.sum[h][i], [](C p, C q) { return p + q; });
    const int64_t row = own + 16 * h + row_of(2 * i);
    const bool blind = sum == C(0);
    if (row < a.rows && lane() % 4 == 0) {
      tops[row] = blind ? -never() : softmax.top[h][i];
      inverses[row] = blind ? C(0) : C(1) / sum;
    }
    return blind ? C(0) : static_cast<C>(a.factor) / sum;
  });
}

COGRAD_BLOCK_KERNEL(attention_forward, AttentionArgs, kTiles.threads()) {
  COGRAD_DYNAMIC_SHARED(Kept, shared);
  for (int64_t job = blockIdx.x; job < a.jobs; job += gridDim.x) {
    const int64_t block = job % a.blocks;
    // Under a causal mask the last rows have the most keys, so these start first.
    attend(a, job / a.blocks, (a.causal ? a.blocks - 1 - block : block) * kRows, shared);
  }
}

}  // namespace cograd::device
