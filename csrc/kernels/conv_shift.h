// SPDX-License-Identifier: BSD-3-Clause
// Padded copies of images, and where in them each product of a convolution reads.
#pragma once
#include <memory>
#include <vector>

#include "kernels/conv.h"

namespace cograd::kernels {

// A copy of `channels` channels of some images: element q of a dim is that of the input at
// (q + start) * step + residue - shift, zero outside. With strides, residues are copies of their
// own, so that steps from one position to the next are 1: [channel][residues][image][extent].
struct ShiftSource {
  int64_t channels = 0, images = 1;
  int64_t in[3] = {1, 1, 1}, step[3] = {1, 1, 1}, shift[3] = {0, 0, 0}, extent[3] = {1, 1, 1};
  std::vector<int64_t> residues[3];

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t plane() const { return extent[0] * extent[1] * extent[2]; }
  int64_t slots() const;
  int64_t channel() const { return slots() * images * plane(); }
  int64_t size() const { return channels * channel(); }
  // The copy that holds a residue.
  int64_t slot(int64_t r0, int64_t r1, int64_t r2) const;
  // Whether the input as it lies is such a copy.
  bool is_input() const;
  // Fills a copy from `count` images whose first element is x, `image` elements apart.
  void fill(DType t, const char* x, int64_t image, int64_t count, int dim, int64_t start,
            char* to) const;
};

// One of the grids of results that a source gives: all, or those of one residue of a stride.
struct ShiftPart {
  std::vector<int64_t> offsets;
  std::vector<int64_t> taps;  // of the kernel, which are products here
  int64_t grid[3] = {1, 1, 1}, y_first = 0, y_stride[3] = {0, 0, 0};
};

// The first dim that has more than one element, or 2.
int outer_dim(const int64_t* in, const int64_t* kernel);

// The sources and grids of y and of the gradient by x; `images` of them side by side, `chunk`
// positions of dim `dim` at once.
struct ShiftPlan {
  ShiftSource source;
  std::vector<ShiftPart> parts;
  int dim = 2;
  int64_t positions = 1, chunk = 1;  // of that dim
};
ShiftPlan forward_plan(const ConvShape& s, int64_t images, int64_t chunk);
ShiftPlan input_grad_plan(const ConvShape& s, int64_t images, int64_t chunk);

}  // namespace cograd::kernels
