// SPDX-License-Identifier: BSD-3-Clause
// Divides distances among threads by rows of the first matrix.
#include "kernels/product/cdist.h"

#include <algorithm>

#include "kernels/core/aligned.h"
#include "kernels/core/isa.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(CdistLoops, cdist_loops)

namespace {

// Returns a multiple of the number of rows that are processed together.
int64_t grain_of(int64_t r, int64_t m, int64_t rows) {
  return std::max(rows, (1 << 16) / std::max<int64_t>(1, r * m) / rows * rows);
}

}  // namespace

void cdist_forward(DType t, double p, const void* a, int64_t n, const void* b, int64_t r, int64_t m,
                   void* out) {
  COGRAD_SLOT(cdist_forward, t, p, a, n, b, r, m, out);
  const HeavyScope heavy(n * r * m);
  const int64_t bytes = cdist_loops().packed_size(t, r, m) * dtype_size(t);
  const AlignedArray<char> packed = aligned_array<char>(bytes);
  cdist_loops().pack(t, b, r, m, packed.get());
  parallel_for(0, n, grain_of(r, m, 12), [&](int64_t lo, int64_t hi) {
    cdist_loops().forward(t, p, a, packed.get(), r, m, out, lo, hi);
  });
}

void cdist_backward(DType t, double p, const void* a, int64_t n, const void* b, int64_t r,
                    int64_t m, const void* g, const void* dist, int64_t row_step, int64_t col_step,
                    void* out) {
  COGRAD_SLOT(cdist_backward, t, p, a, n, b, r, m, g, dist, row_step, col_step, out);
  const HeavyScope heavy(n * r * m);
  parallel_for(0, n, grain_of(r, m, 16), [&](int64_t lo, int64_t hi) {
    cdist_loops().backward(t, p, a, b, r, m, g, dist, row_step, col_step, out, lo, hi);
  });
}

}  // namespace cograd::kernels
