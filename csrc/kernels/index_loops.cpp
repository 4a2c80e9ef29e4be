// SPDX-License-Identifier: BSD-3-Clause
// Row loops of index_add; compiled once per instruction set.
#include "kernels/index_loops.h"

namespace cograd::kernels::COGRAD_ISA {

IndexLoops index_loops();

namespace {

template <class T>
void add(T* to, const T* from, int64_t n, T alpha) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] += alpha * from[i];
}

}  // namespace

IndexLoops index_loops() { return {add<float>, add<double>}; }

}  // namespace cograd::kernels::COGRAD_ISA
