// SPDX-License-Identifier: BSD-3-Clause
// The slots of kernels/nn/softmax.h.
#include "kernels/nn/softmax.h"

#include "cuda/args/softmax_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/row_plan.h"

namespace cograd::cuda {

namespace {

void run(const char* slot, int mode, DType t, const void* a, const void* b, void* out,
         int64_t outer, int64_t n, int64_t inner) {
  if (outer == 0 || n == 0 || inner == 0) return;
  if (inner == 1) {
    const RowPlan plan = plan_rows(t, outer, n, mode, {a, b, out});
    const device::SoftmaxArgs args{a, b, out, outer, n, 1};
    return launch(slot, function_of("softmax.h", "softmax_rows", plan.variant, row_defines),
                  plan.grid, args);
  }
  const device::SoftmaxArgs args{a, b, out, outer * inner, n, inner};
  const int64_t wide = n < 16 ? 256 : 32;
  Grid grid = grid_of(ceil_div(outer * inner, wide), static_cast<int>(wide));
  grid.threads[1] = static_cast<unsigned>(256 / wide);
  const uint64_t variant = plan_rows(t, 1, 32, mode, {}).variant;
  launch(slot, function_of("softmax.h", "softmax_columns", variant, row_defines), grid, args);
}

}  // namespace

void softmax(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  run("softmax", device::kSoftmax, t, x, nullptr, y, outer, n, inner);
}
void log_softmax(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  run("log_softmax", device::kLogSoftmax, t, x, nullptr, y, outer, n, inner);
}
void softmax_backward(DType t, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                      int64_t inner) {
  run("softmax_backward", device::kSoftmaxBackward, t, g, y, gx, outer, n, inner);
}
void log_softmax_backward(DType t, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                          int64_t inner) {
  run("log_softmax_backward", device::kLogSoftmaxBackward, t, g, y, gx, outer, n, inner);
}

COGRAD_CUDA_SLOT(softmax)
COGRAD_CUDA_SLOT(log_softmax)
COGRAD_CUDA_SLOT(softmax_backward)
COGRAD_CUDA_SLOT(log_softmax_backward)

}  // namespace cograd::cuda
