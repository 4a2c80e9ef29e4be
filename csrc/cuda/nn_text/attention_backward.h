// SPDX-License-Identifier: BSD-3-Clause
// The gradients of attention. Weights are computed again from the rows' saved largest scores and
// sums. One kernel owns rows of queries, another one rows of keys, so each sum has one owner and a
// fixed order.
#include "attention_parts.h"

namespace cograd::device {

inline constexpr AttentionTiles kTiles = tiles_of(false);
inline constexpr int kRows = kTiles.rows(), kOthers = kTiles.others;
using Square = Product<1, kOthers / 8>;
using Sum = Product<1, kWide>;

// The component of each row's gradient along the output: a warp for each row.
COGRAD_BLOCK_KERNEL(attention_along, AttentionArgs, 256) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * 8;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * 8 + warp(); at < a.jobs; at += step) {
    const int64_t n = at / a.rows, row = at % a.rows;
    const T* g = matrix(a, a.g, n) + row * a.g.row_step;
    const T* out = matrix(a, a.out, n) + row * a.out.row_step;
    C sum = C(0);
    for (int i = lane(); i < a.value_size; i += 32) sum += load(g, i) * load(out, i);
    COGRAD_UNROLL
    for (int d = 16; d > 0; d /= 2) sum += shuffle_xor(sum, d);
    if (lane() == 0) static_cast<C*>(a.along)[(a.first + n) * a.rows + row] = sum;
  }
}

// A thread block's part of shared memory.
struct Room {
  Kept *own, *own_too, *others, *others_too;
  C* scratch;
  explicit Room(Kept* shared)
      : own(shared),
        own_too(own + kRows * kStep),
        others(own_too + kRows * kStep),
        others_too(others + kOthers * kStep),
        scratch(reinterpret_cast<C*>(others_too + kOthers * kStep) +
                warp() * 16 * kTiles.scratch_step()) {}
};

// Turns scores into weights, and the gradients of the weights into those of the scores before they
// were scaled: scaled ones would be subnormal in float16 too soon. Then clears the weights that
// dropout has dropped.
template <bool kColumns>
inline void differentiate(const AttentionArgs& a, const Dropout& dropout, int64_t n, int64_t row,
                          int64_t key, Square& s, Square& d) {
  const C* tops = static_cast<const C*>(a.tops) + (a.first + n) * a.rows;
  const C* inverses = static_cast<const C*>(a.inverses) + (a.first + n) * a.rows;
  const C* along = static_cast<const C*>(a.along) + (a.first + n) * a.rows;
  const C factor = static_cast<C>(a.factor);
  uint64_t kept = ~uint64_t{0};
  if constexpr (kWithDropout) kept = dropout.bits<kColumns, 1, kOthers / 8>(row, key);
  s.each([&](int, int j, int e, C& w) {
    const int64_t r = row + (kColumns ? column_of(j, e) : row_of(e));
    const bool here = r < a.rows;
    const bool keeps = (kept >> (4 * j + e) & 1) != 0;
    C& slope = d.at[0][j][e];
    w = here ? weight_of(w - tops[r]) * inverses[r] : C(0);
    slope = w * ((keeps ? slope * factor : C(0)) - (here ? along[r] : C(0)));
    if (!keeps) w = C(0);
  });
}

inline void query_gradient(const AttentionArgs& a, int64_t n, int64_t first, const Room& room) {
  constexpr int kThreads = kTiles.threads();
  const T *k = matrix(a, a.k, n, a.group), *v = matrix(a, a.v, n, a.group);
  __syncthreads();
  fetch<kThreads>(room.own, kRows, a.q, matrix(a, a.q, n), first, a.rows, a.size);
  fetch<kThreads>(room.own_too, kRows, a.g, matrix(a, a.g, n), first, a.rows, a.value_size);
  const OwnRows<1> q{room.own + warp() * 16 * kStep}, g{room.own_too + warp() * 16 * kStep};
  const int64_t own = first + warp() * 16;
  const Scores scores(a, n);
  const Dropout dropout(a, n);
  Sum gq;
  const int64_t seen = a.causal && first + kRows < a.keys ? first + kRows : a.keys;
  for (int64_t key = 0; key < seen; key += kOthers) {
    __syncthreads();
    fetch<kThreads>(room.others, kOthers, a.k, k, key, a.keys, a.size);
    fetch<kThreads>(room.others_too, kOthers, a.v, v, key, a.keys, a.value_size);
    arrived();
    __syncthreads();
    if (own >= a.rows || (a.causal && key >= own + 16)) continue;
    Square s, d;
    multiply_rows(s, q, room.others);
    multiply_rows(d, g, room.others_too);
    scores.mask_all<false>(s, own, key);
    differentiate<false>(a, dropout, n, own, key, s, d);
    multiply_weights(gq, d, room.others, room.scratch);
  }
  arrived();  // without keys nothing has waited for the copies
  write_rows(a.gq, offset_of(a, a.gq, n, 1), gq, own, a.rows, a.size,
             [&](int, int) { return static_cast<C>(a.scale); });
}
COGRAD_BLOCK_KERNEL(attention_query_gradient, AttentionArgs, kTiles.threads()) {
  COGRAD_DYNAMIC_SHARED(Kept, shared);
  const Room room(shared);
  for (int64_t job = blockIdx.x; job < a.jobs; job += gridDim.x) {
    const int64_t block = job % a.blocks;
    query_gradient(a, job / a.blocks, (a.causal ? a.blocks - 1 - block : block) * kRows, room);
  }
}

// `n` is the first matrix of queries that share the keys.
inline void key_gradients(const AttentionArgs& a, int64_t n, int64_t first, const Room& room) {
  constexpr int kThreads = kTiles.threads();
  __syncthreads();
  fetch<kThreads>(room.own, kRows, a.k, matrix(a, a.k, n, a.group), first, a.keys, a.size);
  fetch<kThreads>(room.own_too, kRows, a.v, matrix(a, a.v, n, a.group), first, a.keys,
                  a.value_size);
  const OwnRows<1> k{room.own + warp() * 16 * kStep}, v{room.own_too + warp() * 16 * kStep};
  const int64_t own = first + warp() * 16;
  Sum gk, gv;
  for (int64_t m = n; m < n + a.group; ++m) {
    const T *q = matrix(a, a.q, m), *g = matrix(a, a.g, m);
    const Scores scores(a, m);
    const Dropout dropout(a, m);
    // Under a causal mask rows before `first` see none of these keys.
    for (int64_t row = a.causal ? first : 0; row < a.rows; row += kOthers) {
      __syncthreads();
      fetch<kThreads>(room.others, kOthers, a.q, q, row, a.rows, a.size);
      fetch<kThreads>(room.others_too, kOthers, a.g, g, row, a.rows, a.value_size);
      arrived();
      __syncthreads();
      if (own >= a.keys || (a.causal && own >= row + kOthers)) continue;
      Square s, d;
      multiply_rows(s, k, room.others);
      multiply_rows(d, v, room.others_too);
      scores.mask_all<true>(s, row, own);
      differentiate<true>(a, dropout, m, row, own, s, d);
      multiply_weights(gv, s, room.others_too, room.scratch);
      multiply_weights(gk, d, room.others, room.scratch);
    }
  }
  arrived();  // under a causal mask no row may see these keys, and nothing has waited
  write_rows(a.gk, offset_of(a, a.gk, n, a.group), gk, own, a.keys, a.size,
             [&](int, int) { return static_cast<C>(a.scale); });
  write_rows(a.gv, offset_of(a, a.gv, n, a.group), gv, own, a.keys, a.value_size,
             [&](int, int) { return static_cast<C>(a.factor); });
}
COGRAD_BLOCK_KERNEL(attention_key_gradients, AttentionArgs, kTiles.threads()) {
  COGRAD_DYNAMIC_SHARED(Kept, shared);
  const Room room(shared);
  for (int64_t job = blockIdx.x; job < a.jobs; job += gridDim.x)
    key_gradients(a, job / a.blocks * a.group, job % a.blocks * kRows, room);
}

}  // namespace cograd::device
