// SPDX-License-Identifier: BSD-3-Clause
// The inner loops behind conv_direct.h, one copy per instruction set; float and double.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// y[m][i] = bias[m] + sum over k of weights[k][m] * source[offsets[k] + place(i)], for positions i
// of a grid whose rows and planes lie apart in the source as extents say.
struct ShiftJob {
  const void* source = nullptr;
  const int64_t* offsets = nullptr;
  int64_t depth = 0;
  const void* weights = nullptr;  // blocks of `block` rows: [depth][block], zeros at the end
  int64_t rows = 0, block = 1;
  const void* bias = nullptr;  // or null
  void* y = nullptr;           // position 0 of row 0
  int64_t y_row = 0;           // elements between rows
  int64_t grid[3] = {1, 1, 1}, extent[3] = {1, 1, 1}, y_stride[3] = {0, 0, 0};
};

// sums[k][o] += sum over positions i of source[offsets[k] + place(i)] * g[i][o].
struct OuterJob {
  const void* source = nullptr;
  const int64_t* offsets = nullptr;
  int64_t depth = 0;
  const void* g = nullptr;                         // [positions][width]
  int64_t width = 0;                               // a multiple of the lanes
  int64_t lines = 0, length = 0, line_stride = 0;  // positions: rows of the source
  void* sums = nullptr;                            // [depth][width]
};

// sums[k] += sum over positions of source[offsets[k] + place(i)] * g[i], g one channel.
struct DotJob {
  const void* source = nullptr;
  const int64_t* offsets = nullptr;
  int64_t depth = 0;
  const void* g = nullptr;
  int64_t lines = 0, length = 0, line_stride = 0;
  double* sums = nullptr;
};

struct ConvDirectLoops {
  int64_t (*block)(DType t, int64_t rows);  // rows of a block of weights
  int64_t (*lanes)(DType t);
  int64_t (*slack)(DType t);  // elements that are read behind a source
  void (*shift)(DType t, const ShiftJob& job);
  void (*outer)(DType t, const OuterJob& job);
  void (*dots)(DType t, const DotJob& job);
  // to [positions][width] = g [channels][positions], zeros beyond; width is a multiple of the
  // lanes.
  void (*transpose)(DType t, const void* g, int64_t channels, int64_t positions, int64_t width,
                    void* to);
};
const ConvDirectLoops& conv_direct_loops();

// The same results as `shift` with the rows in the lanes of vectors: nothing is computed for the
// space between the rows of the grid.
struct ConvPointLoops {
  int64_t (*block)(DType t, int64_t rows);
  void (*run)(DType t, const ShiftJob& job);
};
const ConvPointLoops& conv_point_loops();

}  // namespace cograd::kernels
