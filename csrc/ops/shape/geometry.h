// SPDX-License-Identifier: BSD-3-Clause
// Shape arithmetic shared by the view ops: inferred sizes, strides of a reshape, slice bounds.
#pragma once
#include "ops/core/view.h"

namespace cograd {

// `asked` with its one -1 filled in so that the elements number `numel`; torch's errors otherwise.
Dims infer_sizes(IntList asked, int64_t numel);
// Strides with which x's memory can be seen as `sizes` (same numel); false if a copy is needed.
bool view_strides(const Tensor& x, IntList sizes, Dims& strides);

struct SliceBounds {
  int64_t start;
  int64_t length;
};
// Python's rules for start:end:step on a dim of `size`.
SliceBounds slice_bounds(int64_t size, std::optional<int64_t> start, std::optional<int64_t> end,
                         int64_t step);

// Regions of `t` as plain aliases, without autograd: the memory that select, slice and diagonal
// see.
Tensor select_region(const Tensor& t, int dim, int64_t index);
Tensor slice_region(const Tensor& t, int dim, SliceBounds bounds, int64_t step);
Tensor diagonal_region(const Tensor& t, int64_t offset, int dim1, int dim2);
// A non-negative index on `dim`; IndexError otherwise.
int64_t check_select(const Tensor& t, int dim, int64_t index);
// Both dims wrapped; raises if they are the same.
std::pair<int, int> diagonal_dims(int ndim, int64_t dim1, int64_t dim2);
// g, which must have exactly the shape of the region it is written to.
const Tensor& checked_part(const char* op, const Tensor& region, const Tensor& g);

// Copies every element of x into the slots of `out` that start at `at` along `dim`.
void copy_region(const Tensor& out, const Tensor& x, int dim, int64_t at);

// Another shape for a contiguous tensor nobody else holds: not a view for autograd.
Tensor unsafe_view(const Tensor& x, IntList sizes);
// Such an alias without a dim of size 1: the result of an op, which may be detached in place.
Tensor without_dim(const Tensor& x, int64_t dim);
// base with the region of that geometry, `offset` elements from its first, replaced by slice.
Tensor scatter_region(const Tensor& base, const Tensor& slice, IntList sizes, IntList strides,
                      int64_t offset);

}  // namespace cograd
