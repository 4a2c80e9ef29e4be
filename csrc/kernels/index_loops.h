// SPDX-License-Identifier: BSD-3-Clause
// Inner loops of the index kernels, one copy per instruction set.
#pragma once
#include <cstdint>

namespace cograd::kernels {

struct IndexLoops {
  // to[i] += alpha * from[i].
  void (*add_float)(float* to, const float* from, int64_t n, float alpha);
  void (*add_double)(double* to, const double* from, int64_t n, double alpha);
  // Whether the n indices, `stride` bytes apart, all lie in [low, size).
  bool (*in_range)(const char* index, int64_t stride, int64_t n, int64_t low, int64_t size);
  // Copies the n indices, `stride` bytes apart; whether all copies lie in [0, size).
  bool (*load)(const char* index, int64_t stride, int64_t n, int64_t size, int64_t* to);
  // The rows of `bytes` bytes at from[index[i]], one after the other, up to the first index outside
  // of [0, size): how many, and that index.
  int64_t (*copy_rows)(char* to, const char* from, const int64_t* index, int64_t n, int64_t size,
                       int64_t bytes, int64_t* bad);
};
const IndexLoops& index_loops();

}  // namespace cograd::kernels
