// SPDX-License-Identifier: BSD-3-Clause
// Declares the inner loops of the index kernels, with one copy per instruction set.
#pragma once
#include <cstdint>

namespace cograd::kernels {

// Rows of a table that belong to one bag; the index `padding` is skipped.
template <class T>
struct BagRows {
  const T* table;
  int64_t width;
  const int64_t* index;
  int64_t n, known;  // number of indices of the bag, and of this bag and the ones behind it
  int64_t padding;
  const T* weights;  // one per index, or null
};

struct IndexLoops {
  // Compute to[i] += alpha * from[i].
  void (*add_float)(float* to, const float* from, int64_t n, float alpha);
  void (*add_double)(double* to, const double* from, int64_t n, double alpha);
  // Compute to = scale * the sum of a bag's rows.
  void (*sum_rows_float)(const BagRows<float>& rows, float scale, float* to);
  void (*sum_rows_double)(const BagRows<double>& rows, double scale, double* to);
  // Find the largest element of each column of a bag's rows, and its row. The first row wins a tie,
  // NaN never wins. Without a row `to` is 0, and `at` is left as it was.
  void (*largest_rows_float)(const BagRows<float>& rows, float* to, int64_t* at);
  void (*largest_rows_double)(const BagRows<double>& rows, double* to, int64_t* at);
  // Returns true if the n indices, `stride` bytes apart, are all in [low, size).
  bool (*in_range)(const char* index, int64_t stride, int64_t n, int64_t low, int64_t size);
  // Copies the n indices, `stride` bytes apart; returns true if all copies are in [0, size).
  bool (*load)(const char* index, int64_t stride, int64_t n, int64_t size, int64_t* to);
  // Copies the rows of `bytes` bytes at from[index[i]] one after the other, up to the first index
  // outside [0, size). Returns the number of rows copied and sets `bad` to that index.
  int64_t (*copy_rows)(char* to, const char* from, const int64_t* index, int64_t n, int64_t size,
                       int64_t bytes, int64_t* bad);
};
const IndexLoops& index_loops();

}  // namespace cograd::kernels
