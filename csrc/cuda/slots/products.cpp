// SPDX-License-Identifier: BSD-3-Clause
// Products of matrices and vectors: cuBLASLt where it is installed, else the kernels of gemm.h.
#include <algorithm>

#include "cuda/args/gemm_args.h"
#include "cuda/driver/launch.h"
#include "cuda/jit/rows.h"
#include "cuda/lib/cublaslt.h"
#include "cuda/memory/scratch.h"
#include "cuda/slots/products.h"
#include "cuda/slots/registry.h"
#include "kernels/product/gemm.h"

namespace cograd::cuda {

namespace {

constexpr int64_t kMostBlocks = INT32_MAX;

int64_t divide_up(int64_t a, int64_t b) noexcept { return (a + b - 1) / b; }
unsigned blocks_for(int64_t n) {
  return static_cast<unsigned>(std::clamp<int64_t>(n, 1, kMostBlocks));
}

CUfunction function(DType t, bool ta, bool tb, const char* name) {
  const std::string defines = std::string("-DTYPE=") + stored_type(t) +
                              " -DTA=" + (ta ? "1" : "0") + " -DTB=" + (tb ? "1" : "0");
  return kernel("gemm.h", defines.c_str(), name);
}

Grid grid_of(unsigned blocks) {
  Grid g;
  g.blocks[0] = blocks;
  g.threads[0] = 256;
  return g;
}

void own_product(const Product& p) {
  constexpr int64_t kTile = 64;
  const int64_t tiles_m = divide_up(p.m, kTile), tiles_n = divide_up(p.n, kTile);
  const GemmArgs args{p.a,   p.b,        p.c,        p.m,        p.n,     p.k,     p.lda,  p.ldb,
                      p.ldc, p.stride_a, p.stride_b, p.stride_c, p.batch, p.alpha, p.beta, tiles_n};
  COGRAD_CHECK(tiles_m * tiles_n <= kMostBlocks, "matmul(): a product of ", p.m, " x ", p.k, " by ",
               p.k, " x ", p.n, " is too large for one launch");
  Grid g = grid_of(static_cast<unsigned>(tiles_m * tiles_n));
  g.blocks[2] = static_cast<unsigned>(std::min<int64_t>(p.batch, 65535));
  launch("gemm", function(p.dtype, p.ta, p.tb, "gemm"), g, args);
}

// A product with alpha = 0 reads neither factor: a NaN in them does not count. Bool ignores alpha.
int64_t depth(DType t, double alpha, int64_t k) noexcept {
  return alpha == 0 && t != DType::Bool ? 0 : k;
}

void product(const Product& p) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  if (!cublaslt_product(p)) own_product(p);
}

}  // namespace

void gemm(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const void* a,
          int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc) {
  product({t, ta, tb, m, n, depth(t, alpha, k), alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1});
}
COGRAD_CUDA_SLOT(gemm)

void gemm_batched(DType t, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha,
                  const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                  int64_t stride_b, double beta, void* c, int64_t ldc, int64_t stride_c,
                  int64_t batch) {
  product({t, ta, tb, m, n, depth(t, alpha, k), alpha, a, lda, stride_a, b, ldb, stride_b, beta, c,
           ldc, stride_c, batch});
}
COGRAD_CUDA_SLOT(gemm_batched)

void gemv(DType t, bool ta, int64_t m, int64_t n, double alpha, const void* a, int64_t lda,
          const void* x, int64_t incx, double beta, void* y, int64_t incy) {
  if ((ta ? n : m) == 0) return;
  const GemvArgs args{a, x, y, m, n, lda, incx, incy, alpha, beta};
  const unsigned blocks = blocks_for(ta ? divide_up(n, 32) : divide_up(m, 8));
  launch("gemv", function(t, false, false, ta ? "gemv_columns" : "gemv_rows"), grid_of(blocks),
         args);
}
COGRAD_CUDA_SLOT(gemv)

void dot(DType t, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy, void* out) {
  constexpr int64_t kPerBlock = 4096, kParts = 1024;
  const auto blocks = static_cast<int>(std::clamp<int64_t>(divide_up(n, kPerBlock), 1, kParts));
  const Scratch partial(static_cast<size_t>(blocks) * 16);
  const DotArgs args{x, y, out, partial.get(), n, incx, incy, blocks};
  launch("dot", function(t, false, false, "dot_parts"), grid_of(static_cast<unsigned>(blocks)),
         args);
  launch("dot", function(t, false, false, "dot_total"), grid_of(1), args);
}
COGRAD_CUDA_SLOT(dot)

void ger(DType t, int64_t m, int64_t n, double alpha, const void* x, int64_t incx, const void* y,
         int64_t incy, double beta, void* a, int64_t lda) {
  if (m == 0 || n == 0) return;
  const GerArgs args{x, y, a, m, n, incx, incy, lda, alpha, beta};
  launch("ger", function(t, false, false, "ger"), grid_of(blocks_for(divide_up(m * n, 1024))),
         args);
}
COGRAD_CUDA_SLOT(ger)

}  // namespace cograd::cuda
