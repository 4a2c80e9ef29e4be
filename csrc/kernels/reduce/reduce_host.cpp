// SPDX-License-Identifier: BSD-3-Clause
// Reductions whose result is a number on the host.
#include <algorithm>
#include <vector>

#include "kernels/reduce/reduce.h"
#include "kernels/reduce/reduce_leaf.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

namespace {

constexpr int64_t kPiece = 1 << 15;

// Sums the n / 2 numbers in pieces whose bounds depend on n alone, and adds those in their order.
template <class T>
Complex<double> sum(const T* p, int64_t n) {
  const ReduceLeaf leaf = reduce_leaf(LeafOp::SumPairs, dtype_of<T>);
  const auto add_piece = [&](int64_t i, Complex<double>* to) {
    const int64_t first = i * kPiece, count = std::min(kPiece, n - first);
    double parts[2] = {};
    leaf.row(leaf, parts, reinterpret_cast<const char*>(p + first), count, sizeof(T), first);
    *to += {parts[0], parts[1]};
  };
  Complex<double> total(0.0);
  if (n <= kPiece) {
    add_piece(0, &total);
    return total;
  }
  std::vector<Complex<double>> sums(static_cast<size_t>(divide_up(n, kPiece)));
  const HeavyScope heavy(n);
  parallel_for(0, divide_up(n, kPiece), 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) add_piece(lo, &sums[static_cast<size_t>(lo)]);
  });
  for (const Complex<double>& part : sums) total += part;
  return total;
}

}  // namespace

bool all_nonzero(DType t, const void* x, const ReduceGeometry& g) {
  COGRAD_SLOT_READS(all_nonzero, t, x, g);
  bool result = false;
  reduce(ReduceOp::All, t, x, g, DType::Bool, &result);
  return result;
}

Complex<double> complex_sum(DType t, const void* x, int64_t n) {
  COGRAD_SLOT_OR({}, complex_sum, t, x, n);
  return t == DType::Complex64 ? sum(static_cast<const float*>(x), 2 * n)
                               : sum(static_cast<const double*>(x), 2 * n);
}

}  // namespace cograd::kernels
