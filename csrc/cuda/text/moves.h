// SPDX-License-Identifier: BSD-3-Clause
// Copies of elements of -DWIDTH= bytes. Bound by memory: neighbouring threads have neighbouring
// elements of up to 16 bytes.
#include "cuda/args/moves_args.h"
#include "prelude.h"

namespace cograd::device {

using U = bytes_t<WIDTH>;

COGRAD_KERNEL(triangle, TriangleArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const int64_t r = i / a.cols, c = i - r * a.cols, cut = r % a.rows + a.shift;
    const bool kept = a.upper ? c >= cut : c < cut;
    static_cast<U*>(a.out)[i] = kept ? static_cast<const U*>(a.x)[i] : U{};
  }
}

COGRAD_KERNEL(copy_rows, RowCopyArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const int64_t r = a.n == a.row ? 0 : i / a.row;
    static_cast<U*>(a.out)[r * a.step + (i - r * a.row)] =
        static_cast<const U*>(a.x)[a.period < a.n ? i % a.period : i];
  }
}

#if WIDTH < 16
COGRAD_KERNEL(arange_integers, RangeArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size())
    static_cast<U*>(a.out)[i] = static_cast<U>(a.first + static_cast<uint64_t>(i) * a.by);
}
#endif

}  // namespace cograd::device
