// SPDX-License-Identifier: BSD-3-Clause
// Sequences of int64 indices.
#include "cuda/args/moves_args.h"
#include "prelude.h"

namespace cograd::device {

// Finds the row of each element by bisection over the number of elements in front of a row.
COGRAD_KERNEL(triangle_indices, TriangleIndexArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    int64_t low = a.space.first, high = a.space.last;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      if (a.space.before(middle) <= i)
        low = middle;
      else
        high = middle;
    }
    const int64_t c = i - a.space.before(low) + (a.space.upper ? a.space.cut(low) : 0);
    if (a.col == nullptr) {
      a.row[i] = low * a.space.cols + c;
    } else {
      a.row[i] = low;
      a.col[i] = c;
    }
  }
}

COGRAD_KERNEL(pad_indices, PadArgs, 256) {
  for (int64_t k = grid_index(); k < a.count; k += grid_size()) {
    const int64_t i = k - a.left, from_start = i < 0 ? -i : i;
    int64_t v;
    if (a.mode == 2)
      v = i < 0 ? 0 : i > a.n - 1 ? a.n - 1 : i;
    else if (a.mode == 3)
      v = (i % a.n + a.n) % a.n;
    else
      v = from_start < a.n ? from_start : 2 * (a.n - 1) - from_start;
    a.out[k] = v;
  }
}

COGRAD_KERNEL(strided_offsets, OffsetArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    int64_t rest = i, at = 0;
    for (int d = a.ndim - 1; d >= 0; --d) {
      const int64_t q = rest / a.size[d];
      at += (rest - q * a.size[d]) * a.stride[d];
      rest = q;
    }
    a.out[i] = at;
  }
}

COGRAD_KERNEL(repeat_numbers, RepeatArgs, 256) {
  for (int64_t i = grid_index(); i < a.total; i += grid_size()) {
    int64_t low = 0, high = a.n;  // the first number whose end is behind i
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (a.ends[middle] <= i)
        low = middle + 1;
      else
        high = middle;
    }
    a.out[i] = low;
  }
}

}  // namespace cograd::device
