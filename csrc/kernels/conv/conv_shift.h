// SPDX-License-Identifier: BSD-3-Clause
// Describes padded copies of images and where each product of a convolution reads them.
#pragma once
#include <memory>
#include <vector>

#include "kernels/conv/conv.h"

namespace cograd::kernels {

// A copy of `channels` channels of some images. Element q of a dim is the input's element
// (q + start) * step + residue - shift, or zero outside. Each residue of a stride is a separate
// copy, so that steps between positions are 1: [channel][residues][image][extent].
struct ShiftSource {
  int64_t channels = 0, images = 1;
  int64_t in[3] = {1, 1, 1}, step[3] = {1, 1, 1}, shift[3] = {0, 0, 0}, extent[3] = {1, 1, 1};
  std::vector<int64_t> residues[3];

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t plane() const { return extent[0] * extent[1] * extent[2]; }
  int64_t slots() const;
  int64_t channel() const { return slots() * images * plane(); }
  int64_t size() const { return channels * channel(); }
  // Returns the number of the copy that holds a residue.
  int64_t slot(int64_t r0, int64_t r1, int64_t r2) const;
  // True if the input itself is such a copy.
  bool is_input() const;
  // Fills a copy from `count` images; the first element is at x and images are `image` elements
  // apart.
  void fill(DType t, const char* x, int64_t image, int64_t count, int dim, int64_t start,
            char* to) const;
};

// One of the grids of results that a source yields: the only one, or that of one residue of a
// stride.
struct ShiftPart {
  std::vector<int64_t> offsets;
  std::vector<int64_t> taps;  // kernel taps whose products belong to this part
  int64_t grid[3] = {1, 1, 1}, y_first = 0, y_stride[3] = {0, 0, 0};
};

// Returns the first dim that has more than one element, or 2.
int outer_dim(const int64_t* in, const int64_t* kernel);

// The sources and grids for y or for the gradient with respect to x. A task handles `images` images
// side by side, and `chunk` positions of dim `dim` at once.
struct ShiftPlan {
  ShiftSource source;
  std::vector<ShiftPart> parts;
  int dim = 2;
  int64_t positions = 1, chunk = 1;  // in dim `dim`
};
ShiftPlan forward_plan(const ConvShape& s, int64_t images, int64_t chunk);
ShiftPlan input_grad_plan(const ConvShape& s, int64_t images, int64_t chunk);

}  // namespace cograd::kernels
