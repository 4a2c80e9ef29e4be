// SPDX-License-Identifier: BSD-3-Clause
// Checks of indices, and one_hot, which checks as it writes.
#include "cuda/args/index_args.h"
#include "late.h"
#include "prelude.h"

namespace cograd::device {

COGRAD_KERNEL(one_hot, OneHotArgs, 256) {
  for (int64_t i = grid_index(); i < a.count; i += grid_size()) {
    const int64_t v = static_cast<const int64_t*>(a.index)[i];
    if (v >= 0 && v < a.classes)
      static_cast<int64_t*>(a.out)[i * a.classes + v] = 1;
    else
      report(a.late, kRuntimeError, a.op, v, a.classes);
  }
}

// In a capture, where the host cannot read the first one.
COGRAD_KERNEL(report_outside, OneHotArgs, 256) {
  for (int64_t i = grid_index(); i < a.count; i += grid_size()) {
    const int64_t v = static_cast<const int64_t*>(a.index)[i];
    if (v < 0 || v >= a.classes) report(a.late, kIndexError, a.op, v, a.classes);
  }
}

COGRAD_KERNEL(first_outside, CheckArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const int64_t v = static_cast<const int64_t*>(a.index)[i];
    if (v < 0 || v >= a.size) atomicMin(a.found, static_cast<unsigned long long>(i));
  }
}

// Negative indices are the largest as unsigned numbers.
COGRAD_BLOCK_KERNEL(largest, CheckArgs, 256) {
  unsigned long long top = 0;
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const auto v = static_cast<const unsigned long long*>(a.index)[i];
    if (v > top) top = v;
  }
  COGRAD_UNROLL
  for (int m = 16; m > 0; m /= 2) {
    const unsigned long long other = shuffle_xor(top, m);
    if (other > top) top = other;
  }
  if (lane() == 0) atomicMax(a.found, top);
}

}  // namespace cograd::device
