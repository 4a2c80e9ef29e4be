// SPDX-License-Identifier: BSD-3-Clause
// Row loops of index_add, one copy per instruction set.
#pragma once
#include <cstdint>

namespace cograd::kernels {

// to[i] += alpha * from[i].
struct IndexLoops {
  void (*add_float)(float* to, const float* from, int64_t n, float alpha);
  void (*add_double)(double* to, const double* from, int64_t n, double alpha);
};
IndexLoops index_loops();

}  // namespace cograd::kernels
