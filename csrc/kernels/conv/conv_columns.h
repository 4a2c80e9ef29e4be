// SPDX-License-Identifier: BSD-3-Clause
// Columns hold the elements that one output position reads, for a range of positions.
#pragma once
#include <vector>

#include "kernels/conv/conv.h"

namespace cograd::kernels {

// Returns the input's index in dim `d` under a tap; -1 outside the input.
inline int64_t input_index(const ConvShape& s, int d, int64_t position, int64_t tap) {
  const int64_t i = position * s.stride[d] - s.padding[d] + tap * s.dilation[d];
  return i >= 0 && i < s.in[d] ? i : -1;
}

// A run of positions in one output row of one image, and its offset among the columns.
struct ColumnRun {
  int64_t image, z, y, x0, x1, at;
};
// Returns the runs of positions [first, last), counted through all images.
std::vector<ColumnRun> column_runs(const ConvShape& s, int64_t first, int64_t last);

// The range of one dim of a run under a tap: positions lo to hi are inside the input.
struct TapRange {
  int64_t lo, hi, start;  // the input's index at position lo
};
TapRange tap_range(const ConvShape& s, int64_t tap, int64_t x0, int64_t x1);

// Writes dst (channels * taps, ld) from channels [c0, c1) of every image; images are `image_stride`
// elements apart.
void read_columns(DType t, const ConvShape& s, const std::vector<ColumnRun>& runs, const char* x,
                  int64_t image_stride, int64_t c0, int64_t c1, char* dst, int64_t ld);
// Adds the columns to the elements of x that they were read from.
void add_columns(DType t, const ConvShape& s, const std::vector<ColumnRun>& runs, const char* src,
                 int64_t ld, int64_t c0, int64_t c1, char* x, int64_t image_stride);

}  // namespace cograd::kernels
