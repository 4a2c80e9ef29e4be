// SPDX-License-Identifier: BSD-3-Clause
// Products of matrices and vectors: cuBLASLt where it is installed, else the kernels of gemm.h.
#include <algorithm>

#include "cuda/args/gemm_args.h"
#include "cuda/lib/cublaslt.h"
#include "cuda/slots/products.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "kernels/product/gemm.h"

namespace cograd::cuda {

namespace {

constexpr int kThreads = 256;

// A variant has the dtype in its lowest 8 bits, then whether a and b are transposed.
std::string defines_of(uint64_t variant) {
  return std::string("-DCOGRAD_T=") + stored_type(static_cast<DType>(variant & 0xFF)) +
         " -DTA=" + ((variant >> 8 & 1) != 0 ? "1" : "0") +
         " -DTB=" + ((variant >> 9 & 1) != 0 ? "1" : "0");
}
CUfunction function(DType t, bool ta, bool tb, const char* name) {
  const uint64_t variant = static_cast<uint64_t>(t) | uint64_t{ta} << 8 | uint64_t{tb} << 9;
  return function_of("gemm.h", name, variant, defines_of);
}

void own_product(const Product& p) {
  constexpr int64_t kTile = 64;
  const int64_t tiles_m = ceil_div(p.m, kTile), tiles_n = ceil_div(p.n, kTile);
  const GemmArgs args{p.a,   p.b,        p.c,        p.m,        p.n,     p.k,     p.lda,  p.ldb,
                      p.ldc, p.stride_a, p.stride_b, p.stride_c, p.batch, p.alpha, p.beta, tiles_n};
  COGRAD_CHECK(tiles_m * tiles_n <= INT32_MAX, "matmul(): a product of ", p.m, " x ", p.k, " by ",
               p.k, " x ", p.n, " is too large for one launch");
  Grid g = grid_of(tiles_m * tiles_n, kThreads);
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
  launch("gemv", function(t, false, false, ta ? "gemv_columns" : "gemv_rows"),
         grid_of(ta ? ceil_div(n, 32) : ceil_div(m, 8), kThreads), args);
}
COGRAD_CUDA_SLOT(gemv)

void dot(DType t, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy, void* out) {
  constexpr int64_t kPerBlock = 4096, kParts = 1024;
  const auto blocks = static_cast<int>(std::clamp<int64_t>(ceil_div(n, kPerBlock), 1, kParts));
  const Scratch partial(static_cast<size_t>(blocks) * 16);
  const DotArgs args{x, y, out, partial.get(), n, incx, incy, blocks};
  launch("dot", function(t, false, false, "dot_parts"), grid_of(blocks, kThreads), args);
  launch("dot", function(t, false, false, "dot_total"), grid_of(1, kThreads), args);
}
COGRAD_CUDA_SLOT(dot)

void ger(DType t, int64_t m, int64_t n, double alpha, const void* x, int64_t incx, const void* y,
         int64_t incy, double beta, void* a, int64_t lda) {
  if (m == 0 || n == 0) return;
  const GerArgs args{x, y, a, m, n, incx, incy, lda, alpha, beta};
  launch("ger", function(t, false, false, "ger"), grid_of(ceil_div(m * n, 1024), kThreads), args);
}
COGRAD_CUDA_SLOT(ger)

}  // namespace cograd::cuda
