// SPDX-License-Identifier: BSD-3-Clause
// The slots of kernels/nn/norm.h.
#include "kernels/nn/norm.h"

#include "cuda/args/norm_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/row_plan.h"

namespace cograd::cuda {

void layer_norm_forward(DType t, const void* x, const void* weight, const void* bias, int64_t rows,
                        int64_t n, double eps, void* y, void* mean, void* rstd) {
  if (rows == 0) return;
  const RowPlan plan = plan_rows(t, rows, n, 0, {x, y});
  device::LayerNormArgs a{};
  a.x = x;
  a.weight = weight;
  a.bias = bias;
  a.y = y;
  a.mean = mean;
  a.rstd = rstd;
  a.rows = rows;
  a.n = n;
  a.eps = eps;
  launch("layer_norm_forward",
         function_of("layer_norm.h", "layer_norm_forward", plan.variant, row_defines), plan.grid,
         a);
}

void layer_norm_backward(DType t, const void* g, const void* x, const void* mean, const void* rstd,
                         const void* weight, int64_t rows, int64_t n, void* gx, void* gweight,
                         void* gbias) {
  constexpr const char* kName = "layer_norm_backward";
  if (n == 0) return;
  const RowPlan plan = plan_rows(t, rows, n, 0, {x, g, gx});
  const auto function = [&](const char* name) {
    return function_of("layer_norm.h", name, plan.variant, row_defines);
  };
  if (gx != nullptr && rows != 0) {
    device::LayerNormArgs a{};
    a.x = x;
    a.weight = weight;
    a.g = g;
    a.y = gx;
    a.mean = const_cast<void*>(mean);
    a.rstd = const_cast<void*>(rstd);
    a.rows = rows;
    a.n = n;
    launch(kName, function("layer_norm_backward"), plan.grid, a);
  }
  if (gweight == nullptr && gbias == nullptr) return;
  const int64_t tiles = ceil_div(n, 32), wanted = ceil_div(int64_t{8} * multiprocessors(), tiles);
  const int64_t chunk = std::max<int64_t>(
      1, ceil_div(rows, std::clamp<int64_t>(std::min(wanted, rows / 32), 1, 256)));
  const int64_t chunks = std::max<int64_t>(1, ceil_div(rows, chunk));
  const Scratch partial(2 * chunks * n * static_cast<int64_t>(sizeof(double)));
  const device::LayerNormSums s{
      g,    x, mean,  rstd,  gweight, gbias, static_cast<double*>(partial.data()),
      rows, n, chunk, chunks};
  Grid grid = grid_of(tiles * chunks, 32);
  grid.threads[1] = 8;
  launch(kName, function("layer_norm_sums"), grid, s);
  launch(kName, function("layer_norm_totals"), grid_of(ceil_div(2 * n, 256), 256), s);
}

COGRAD_CUDA_SLOT(layer_norm_forward)
COGRAD_CUDA_SLOT(layer_norm_backward)

}  // namespace cograd::cuda
