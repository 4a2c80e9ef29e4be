// SPDX-License-Identifier: BSD-3-Clause
// Shape arithmetic shared by the view ops: inferred sizes, strides of a reshape, slice bounds.
#pragma once
#include "ops/declare/view.h"

namespace cograd {

// Returns `asked` with its one -1 replaced so that there are `numel` elements; raises torch's
// errors.
Dims infer_sizes(IntList asked, int64_t numel);
// Finds strides that view x's memory as `sizes` (same numel); false if a copy is needed.
bool view_strides(const Tensor& x, IntList sizes, Dims& strides);

struct SliceBounds {
  int64_t start;
  int64_t length;
};
// Applies Python's rules for start:end:step to a dim of `size`.
SliceBounds slice_bounds(int64_t size, std::optional<int64_t> start, std::optional<int64_t> end,
                         int64_t step);

// Return regions of `t` as plain aliases without autograd: the memory of select, slice and
// diagonal.
Tensor select_region(const Tensor& t, int dim, int64_t index);
Tensor slice_region(const Tensor& t, int dim, SliceBounds bounds, int64_t step);
Tensor diagonal_region(const Tensor& t, int64_t offset, int dim1, int dim2);
// Returns a non-negative index on `dim`; raises IndexError if it is out of range.
int64_t check_select(const Tensor& t, int dim, int64_t index);
// Wraps both dims; raises if they are equal.
std::pair<int, int> diagonal_dims(int ndim, int64_t dim1, int64_t dim2);
// Returns g after checking that it has exactly the shape of the region to which it is written.
const Tensor& checked_part(const char* op, const Tensor& region, const Tensor& g);

// Copies x into the slots of `out` that start at `at` along `dim`.
void copy_region(const Tensor& out, const Tensor& x, int dim, int64_t at);

// Reshapes a contiguous tensor that has no other owner; the result is not a view for autograd.
Tensor unsafe_view(const Tensor& x, IntList sizes);
// Drops a dim of size 1 in the same way, for an op's result, which may be detached in place.
Tensor without_dim(const Tensor& x, int64_t dim);
// Returns base with a region replaced by slice; `offset` counts elements from base's first.
Tensor scatter_region(const Tensor& base, const Tensor& slice, IntList sizes, IntList strides,
                      int64_t offset);

}  // namespace cograd
