// SPDX-License-Identifier: BSD-3-Clause
// Divides softmax among threads by rows or column tiles; the loops are in softmax_loops.cpp.
#include "kernels/nn/softmax.h"

#include <algorithm>

#include "kernels/core/isa.h"
#include "kernels/nn/softmax_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(SoftmaxLoops, softmax_loops)

namespace {

constexpr int64_t kGrain = 1 << 13;  // elements per task

void run(SoftmaxOp op, DType t, const void* a, const void* b, void* out, int64_t outer, int64_t n,
         int64_t inner) {
  if (outer == 0 || n == 0 || inner == 0) return;
  HeavyScope heavy(outer * n * inner);
  const SoftmaxLoops loops = softmax_loops();
  const int64_t itemsize = dtype_size(t);
  const auto at = [itemsize](const void* p, int64_t i) -> const void* {
    return p == nullptr ? nullptr : static_cast<const char*>(p) + i * itemsize;
  };
  const auto out_at = [itemsize, out](int64_t i) {
    return static_cast<void*>(static_cast<char*>(out) + i * itemsize);
  };
  if (inner == 1) {
    parallel_for(0, outer, std::max<int64_t>(1, kGrain / n), [&](int64_t lo, int64_t hi) {
      loops.rows(op, t, at(a, lo * n), at(b, lo * n), out_at(lo * n), hi - lo, n);
    });
    return;
  }
  const int64_t tiles = (inner + kSoftmaxTile - 1) / kSoftmaxTile;
  const int64_t grain = std::max<int64_t>(1, kGrain / (n * std::min(inner, kSoftmaxTile)));
  parallel_for(0, outer * tiles, grain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const int64_t o = lo / tiles, j = (lo - o * tiles) * kSoftmaxTile;
      const int64_t first = o * n * inner + j;
      loops.columns(op, t, at(a, first), at(b, first), out_at(first), n, inner,
                    std::min(kSoftmaxTile, inner - j));
    }
  });
}

}  // namespace

void softmax(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  COGRAD_SLOT(softmax, t, x, y, outer, n, inner);
  run(SoftmaxOp::Softmax, t, x, nullptr, y, outer, n, inner);
}
void log_softmax(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  COGRAD_SLOT(log_softmax, t, x, y, outer, n, inner);
  run(SoftmaxOp::LogSoftmax, t, x, nullptr, y, outer, n, inner);
}
void softmax_backward(DType t, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                      int64_t inner) {
  COGRAD_SLOT(softmax_backward, t, g, y, gx, outer, n, inner);
  run(SoftmaxOp::SoftmaxBackward, t, g, y, gx, outer, n, inner);
}
void log_softmax_backward(DType t, const void* g, const void* y, void* gx, int64_t outer, int64_t n,
                          int64_t inner) {
  COGRAD_SLOT(log_softmax_backward, t, g, y, gx, outer, n, inner);
  run(SoftmaxOp::LogSoftmaxBackward, t, g, y, gx, outer, n, inner);
}

}  // namespace cograd::kernels
