// SPDX-License-Identifier: BSD-3-Clause
// Columns: the elements that one output position sees, for a range of positions.
#pragma once
#include <vector>

#include "kernels/conv.h"

namespace cograd::kernels {

// The input's index of dim `d` under a tap, -1 outside.
inline int64_t input_index(const ConvShape& s, int d, int64_t position, int64_t tap) {
  const int64_t i = position * s.stride[d] - s.padding[d] + tap * s.dilation[d];
  return i >= 0 && i < s.in[d] ? i : -1;
}

// Positions of one row of the output, of one image, and where they stand among the columns.
struct ColumnRun {
  int64_t image, z, y, x0, x1, at;
};
// The runs of positions [first, last), counted through all images.
std::vector<ColumnRun> column_runs(const ConvShape& s, int64_t first, int64_t last);

// One dim of a run under a tap: positions lo to hi are inside of the input.
struct TapRange {
  int64_t lo, hi, start;  // `start`: the input's index at lo
};
TapRange tap_range(const ConvShape& s, int64_t tap, int64_t x0, int64_t x1);

// dst (channels * taps, ld): channels [c0, c1) of every image, whose images lie `image_stride`
// elements apart.
void read_columns(DType t, const ConvShape& s, const std::vector<ColumnRun>& runs, const char* x,
                  int64_t image_stride, int64_t c0, int64_t c1, char* dst, int64_t ld);
// x += what the columns say.
void add_columns(DType t, const ConvShape& s, const std::vector<ColumnRun>& runs, const char* src,
                 int64_t ld, int64_t c0, int64_t c1, char* x, int64_t image_stride);

}  // namespace cograd::kernels
