// SPDX-License-Identifier: BSD-3-Clause
// Declares the inner loops of conv_direct.h for float and double, with one copy per instruction
// set.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Computes y[m][i] = bias[m] + sum over k of weights[k][m] * source[offsets[k] + place(i)] for
// positions i of a grid. `extent` defines the distances of the grid's rows and planes in the
// source.
struct ShiftJob {
  const void* source = nullptr;
  const int64_t* offsets = nullptr;
  int64_t depth = 0;
  const void* weights = nullptr;  // blocks of `block` rows: [depth][block], padded with zeros
  int64_t rows = 0, block = 1;
  const void* bias = nullptr;  // may be null
  void* y = nullptr;           // position 0 of row 0
  int64_t y_row = 0;           // elements between rows
  int64_t grid[3] = {1, 1, 1}, extent[3] = {1, 1, 1}, y_stride[3] = {0, 0, 0};
};

// Computes sums[k][o] += sum over positions i of source[offsets[k] + place(i)] * g[i][o].
struct OuterJob {
  const void* source = nullptr;
  const int64_t* offsets = nullptr;
  int64_t depth = 0;
  const void* g = nullptr;                         // [positions][width]
  int64_t width = 0;                               // a multiple of the number of lanes
  int64_t lines = 0, length = 0, line_stride = 0;  // positions as rows of the source
  void* sums = nullptr;                            // [depth][width]
};

// Computes sums[k] += sum over positions i of source[offsets[k] + place(i)] * g[i], for one channel
// g.
struct DotJob {
  const void* source = nullptr;
  const int64_t* offsets = nullptr;
  int64_t depth = 0;
  const void* g = nullptr;
  int64_t lines = 0, length = 0, line_stride = 0;
  double* sums = nullptr;
};

struct ConvDirectLoops {
  int64_t (*block)(DType t, int64_t rows);  // rows per block of weights
  int64_t (*lanes)(DType t);
  int64_t (*slack)(DType t);  // number of elements read past the end of a source
  void (*shift)(DType t, const ShiftJob& job);
  void (*outer)(DType t, const OuterJob& job);
  void (*dots)(DType t, const DotJob& job);
  // Writes to [positions][width] = g [channels][positions], whose rows are `row` elements apart,
  // padded with zeros; width is a multiple of the number of lanes.
  void (*transpose)(DType t, const void* g, int64_t row, int64_t channels, int64_t positions,
                    int64_t width, void* to);
};
const ConvDirectLoops& conv_direct_loops();

// Computes the results of `shift` with channels in the lanes of vectors, so nothing is computed for
// the space between the rows of the grid.
struct ConvPointLoops {
  int64_t (*block)(DType t, int64_t rows);
  void (*run)(DType t, const ShiftJob& job);
};
const ConvPointLoops& conv_point_loops();

}  // namespace cograd::kernels
