// SPDX-License-Identifier: BSD-3-Clause
// Slots of kernels/core/moves.h.
#include "kernels/core/moves.h"

#include "cuda/args/moves_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "tensor/device.h"

namespace cograd::cuda {

namespace {

CUfunction moves(int64_t width, const char* name) {
  return function_of("moves.h", name, {{"WIDTH", width}});
}
int64_t address(const void* p) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p)); }

// The widest element that all of these are multiples of.
template <class... N>
int64_t width_of(N... n) {
  int64_t w = 1;
  while (w < 16 && ((n % (2 * w) == 0) && ...)) w *= 2;
  return w;
}

// Copies bytes in rows of `row`, `step` apart in `out`; the source repeats after `period`.
void copy_rows(const char* slot, const void* x, int64_t n, int64_t row, int64_t step,
               int64_t period, void* out) {
  const int64_t w = width_of(address(x), address(out), row, step, period);
  const device::RowCopyArgs a{x, out, n / w, row / w, step / w, period / w};
  launch(slot, moves(w, "copy_rows"), grid_over(a.n), a);
}

}  // namespace

void triangle(int64_t itemsize, void* out, const void* x, int64_t all, int64_t rows, int64_t cols,
              int64_t diagonal, bool upper) {
  if (all * cols == 0) return;
  const int64_t shift = std::clamp(diagonal, -rows - 1, cols + 1) + (upper ? 0 : 1);
  const device::TriangleArgs a{x, out, all * cols, rows, cols, shift, upper ? 1 : 0};
  launch("triangle", moves(itemsize, "triangle"), grid_over(a.n), a);
}
COGRAD_CUDA_SLOT(triangle)

void copy_bytes(const void* from, int64_t n, void* to) {
  if (n <= 0) return;
  if (!on_device(from)) return copy_from_host(thread_place.now, from, to, static_cast<size_t>(n));
  copy_on_device(to, from, n);
}
COGRAD_CUDA_SLOT(copy_bytes)

void zero_bytes(void* at, int64_t n) { set_bytes(at, 0, n); }
COGRAD_CUDA_SLOT(zero_bytes)

void join(std::span<const kernels::JoinedPart> parts, int64_t outer, void* out) {
  int64_t step = 0;
  for (const kernels::JoinedPart& p : parts) step += p.bytes;
  char* to = static_cast<char*>(out);
  for (const kernels::JoinedPart& p : parts) {
    if (p.bytes > 0 && outer > 0) {
      if (outer == 1)
        copy_bytes(p.data, p.bytes, to);
      else
        copy_rows("join", p.data, outer * p.bytes, p.bytes, step, outer * p.bytes, to);
    }
    to += p.bytes;
  }
}
COGRAD_CUDA_SLOT(join)

void repeat_row(const void* row, int64_t bytes, int64_t rows, void* out) {
  if (rows <= 0 || bytes <= 0) return;
  copy_rows("repeat_row", row, rows * bytes, rows * bytes, rows * bytes, bytes, out);
}
COGRAD_CUDA_SLOT(repeat_row)

}  // namespace cograd::cuda
