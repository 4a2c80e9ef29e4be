// SPDX-License-Identifier: BSD-3-Clause
// Sums whole vectors; compiled once per instruction set.
#pragma once
#include <algorithm>

#include "kernels/reduce/reduce_vec.h"

namespace cograd::kernels::COGRAD_ISA {

constexpr int64_t kBlock = 4096;  // elements that are added in their own type

// Returns the sum of step(offset) over the whole vectors in n elements; adds blocks in double.
template <class A, class F>
COGRAD_INLINE double block_sum(int64_t n, F&& step) {
  constexpr int L = kLanes<A>;
  double total = 0;
  for (int64_t i = 0; i + L <= n;) {
    const int64_t end = std::min(n, i + kBlock);
    Vec<A, L> s0{}, s1{};
    for (; i + 2 * L <= end; i += 2 * L) {
      s0 += step(i);
      s1 += step(i + L);
    }
    if (i + L <= end) {
      s0 += step(i);
      i += L;
    }
    total += add_lanes<A, L>(s0 + s1);
  }
  return total;
}

}  // namespace cograd::kernels::COGRAD_ISA
