// SPDX-License-Identifier: BSD-3-Clause
// Products of row-major matrices for every dtype: what cuBLASLt does not compute, or is not there
// for. -DCOGRAD_T= is the dtype, -DTA= and -DTB= say whether a and b are transposed.
#include "cuda/args/gemm_args.h"
#include "prelude.h"

namespace cograd::device {

using T = COGRAD_T;
using C = compute_t<T>;

// bool adds by `or` and multiplies by `and`.
template <class V>
inline V plus(V a, V b) {
  if constexpr (is_same<V, bool>)
    return a || b;
  else
    return V(a + b);
}
template <class V>
inline V times(V a, V b) {
  if constexpr (is_same<V, bool>)
    return a && b;
  else
    return V(a * b);
}
inline C multiply_add(C a, C b, C sum) { return plus(sum, times(a, b)); }
// Writes alpha * sum + beta * old; beta = 0 does not read.
inline void finish(T* c, C sum, double alpha, double beta) {
  if (alpha != 1) sum = times(sum, C(alpha));
  if (beta != 0) sum = plus(sum, times(C(beta), load(c)));
  store(c, sum);
}

// A block computes a tile of 64 x 64 by 256 threads, each 4 x 4 elements in registers, from pieces
// of depth 16 in shared memory. It is bound by the shared memory's bandwidth.
constexpr int kTile = 64, kDepth = 16, kThreads = 256, kEach = 4;

COGRAD_BLOCK_KERNEL(gemm, GemmArgs, 256) {
  COGRAD_SHARED C sa[kDepth][kTile + 1];
  COGRAD_SHARED C sb[kDepth][kTile + 1];
  const int64_t m0 = static_cast<int64_t>(blockIdx.x) / a.tiles_n * kTile;
  const int64_t n0 = static_cast<int64_t>(blockIdx.x) % a.tiles_n * kTile;
  const int thread = static_cast<int>(threadIdx.x), row = thread / 16 * kEach, col = thread % 16;
  for (int64_t batch = blockIdx.z; batch < a.batch; batch += gridDim.z) {
    const T* pa = static_cast<const T*>(a.a) + batch * a.stride_a;
    const T* pb = static_cast<const T*>(a.b) + batch * a.stride_b;
    T* pc = static_cast<T*>(a.c) + batch * a.stride_c;
    C sum[kEach][kEach] = {};
    for (int64_t k0 = 0; k0 < a.k; k0 += kDepth) {
      COGRAD_UNROLL
      for (int e = 0; e < kTile * kDepth / kThreads; ++e) {
        const int at = e * kThreads + thread;
        // Neighbouring threads read neighbouring elements of a row of the stored matrix.
        const int ia = TA ? at % kTile : at / kDepth, ka = TA ? at / kTile : at % kDepth;
        const int64_t i = m0 + ia, p = k0 + ka;
        const bool in_a = i < a.m && p < a.k;
        sa[ka][ia] = in_a ? load(pa, TA ? p * a.lda + i : i * a.lda + p) : C(0);
        const int jb = TB ? at / kDepth : at % kTile, kb = TB ? at % kDepth : at / kTile;
        const int64_t j = n0 + jb, q = k0 + kb;
        const bool in_b = j < a.n && q < a.k;
        sb[kb][jb] = in_b ? load(pb, TB ? j * a.ldb + q : q * a.ldb + j) : C(0);
      }
      __syncthreads();
      COGRAD_UNROLL
      for (int k = 0; k < kDepth; ++k) {
        C va[kEach], vb[kEach];
        COGRAD_UNROLL
        for (int e = 0; e < kEach; ++e) {
          va[e] = sa[k][row + e];
          vb[e] = sb[k][col + 16 * e];
        }
        COGRAD_UNROLL
        for (int i = 0; i < kEach; ++i) COGRAD_UNROLL
        for (int j = 0; j < kEach; ++j) sum[i][j] = multiply_add(va[i], vb[j], sum[i][j]);
      }
      __syncthreads();
    }
    COGRAD_UNROLL
    for (int i = 0; i < kEach; ++i) COGRAD_UNROLL
    for (int j = 0; j < kEach; ++j) {
      const int64_t r = m0 + row + i, s = n0 + col + 16 * j;
      if (r < a.m && s < a.n) finish(pc + r * a.ldc + s, sum[i][j], a.alpha, a.beta);
    }
  }
}

// Adds up a value over the lanes of a warp, always in the same order; all lanes get the sum.
inline C warp_total(C v) {
  COGRAD_UNROLL
  for (int d = 16; d > 0; d /= 2) v = plus(v, shuffle_xor(v, d));
  return v;
}

// y = A x: a warp for each row of the stored matrix.
COGRAD_BLOCK_KERNEL(gemv_rows, GemvArgs, 256) {
  const T *pa = static_cast<const T*>(a.a), *x = static_cast<const T*>(a.x);
  const int64_t step = static_cast<int64_t>(gridDim.x) * 8;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * 8 + warp(); i < a.m; i += step) {
    C sum = C(0);
    for (int64_t j = lane(); j < a.n; j += 32)
      sum = multiply_add(load(pa, i * a.lda + j), load(x, j * a.incx), sum);
    sum = warp_total(sum);
    if (lane() == 0) finish(static_cast<T*>(a.y) + i * a.incy, sum, a.alpha, a.beta);
  }
}

// y = A^T x: a block has 32 columns; its 8 warps take every eighth row each.
COGRAD_BLOCK_KERNEL(gemv_columns, GemvArgs, 256) {
  COGRAD_SHARED C part[8][32];
  const T *pa = static_cast<const T*>(a.a), *x = static_cast<const T*>(a.x);
  const int64_t j = static_cast<int64_t>(blockIdx.x) * 32 + lane();
  C sum = C(0);
  if (j < a.n)
    for (int64_t i = warp(); i < a.m; i += 8)
      sum = multiply_add(load(pa, i * a.lda + j), load(x, i * a.incx), sum);
  part[warp()][lane()] = sum;
  __syncthreads();
  if (warp() != 0 || j >= a.n) return;
  for (int w = 1; w < 8; ++w) sum = plus(sum, part[w][lane()]);
  finish(static_cast<T*>(a.y) + j * a.incy, sum, a.alpha, a.beta);
}

// Adds up a value over a block of 256 threads, always in the same order; thread 0 gets the sum.
inline C block_total(C v, C* shared) {
  v = warp_total(v);
  if (lane() == 0) shared[warp()] = v;
  __syncthreads();
  if (warp() != 0) return v;
  return warp_total(lane() < 8 ? shared[lane()] : C(0));
}
COGRAD_BLOCK_KERNEL(dot_parts, DotArgs, 256) {
  COGRAD_SHARED C shared[8];
  const T *x = static_cast<const T*>(a.x), *y = static_cast<const T*>(a.y);
  C sum = C(0);
  for (int64_t i = grid_index(); i < a.n; i += grid_size())
    sum = multiply_add(load(x, i * a.incx), load(y, i * a.incy), sum);
  sum = block_total(sum, shared);
  if (threadIdx.x == 0) static_cast<C*>(a.partial)[blockIdx.x] = sum;
}
COGRAD_BLOCK_KERNEL(dot_total, DotArgs, 256) {
  COGRAD_SHARED C shared[8];
  C sum = C(0);
  for (int i = static_cast<int>(threadIdx.x); i < a.blocks; i += 256)
    sum = plus(sum, static_cast<const C*>(a.partial)[i]);
  sum = block_total(sum, shared);
  if (threadIdx.x == 0) store(static_cast<T*>(a.out), sum);
}

// A = alpha x y^T + beta A.
COGRAD_KERNEL(ger, GerArgs, 256) {
  const T *x = static_cast<const T*>(a.x), *y = static_cast<const T*>(a.y);
  for (int64_t e = grid_index(); e < a.m * a.n; e += grid_size()) {
    const int64_t i = e / a.n, j = e % a.n;
    const C product = multiply_add(load(x, i * a.incx), load(y, j * a.incy), C(0));
    finish(static_cast<T*>(a.a) + i * a.lda + j, product, a.alpha, a.beta);
  }
}

}  // namespace cograd::device
