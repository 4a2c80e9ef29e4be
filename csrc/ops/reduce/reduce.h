// SPDX-License-Identifier: BSD-3-Clause
// Shared by reductions and scans: sets of dims, geometry, and views that undo a reduction.
#pragma once
#include "kernels/reduce/reduce.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"

namespace cograd {

using DimMask = uint64_t;  // bit i is set if dim i is reduced

inline DimMask all_dims(int ndim) noexcept {
  return ndim >= 64 ? ~DimMask{0} : (DimMask{1} << ndim) - 1;
}
// Returns all dims for None or an empty list; raises on dims out of range or repeated.
DimMask dim_mask(const Tensor& x, const std::optional<IntList>& dims);
Dims mask_dims(DimMask mask);

// The kept and reduced dims in the form that kernels use, and the result's shape.
struct ReducePlan {
  ReducePlan(const Tensor& x, DimMask mask, bool keepdim);
  kernels::ReduceGeometry geometry() const { return {kept, kept_steps, reduced, reduced_steps}; }
  Dims shape, kept, kept_steps, reduced, reduced_steps;
  int64_t count = 1;  // number of elements reduced to each result
};

// Stores the sizes and dims from which backward expands a reduced gradient.
struct ReduceState {
  Dims sizes;
  DimMask mask = 0;
};

// The elements along one dim as [outer, n, inner]; a 0-dim tensor is [1, 1, 1].
struct Axis {
  int64_t outer = 1;
  int64_t n = 1;
  int64_t inner = 1;
};
Axis axis_of(IntList sizes, int dim);

// Views a reduced tensor (dims kept as 1 or dropped) at the full `sizes`; differentiable.
Tensor expand_reduced(const Tensor& g, IntList sizes, DimMask mask);
// Returns the differentiable sum over `mask`; x itself if mask is empty.
Tensor sum_mask(const Tensor& x, DimMask mask, bool keepdim);

// Returns a / b, and 0 with zero derivatives where b is 0.
Tensor ratio_or_zero(const Tensor& a, const Tensor& b);
// Divides the gradient of an extreme y of x over `mask` evenly among the elements equal to y. Where
// y is NaN, the NaN elements are the ties; with `nan_ties` false, all elements get NaN.
Tensor split_among_ties(const Tensor& g, const Tensor& x, const Tensor& y, DimMask mask,
                        bool nan_ties = true);
// Returns out[.., j, ..] = x[.., index[.., j, ..], ..] along dim. index is int64 with entries in
// range and has x's other dims; if it lacks dim, one element is picked.
Tensor take_along(const Tensor& x, int dim, const Tensor& index);
// Returns zeros of `sizes` with g added at the indices: the transpose of take_along.
Tensor put_along(const Tensor& g, int dim, const Tensor& index, IntList sizes);
// Computes s[k] = a[k] + b[k] * s[k + 1] (k - 1 unless reverse) along dim; undefined b means ones.
Tensor linear_recurrence(const Tensor& a, const Tensor& b, int dim, bool reverse);
// Returns out[k] = x[k - by] along dim, with 0 where that is out of range.
Tensor shift(const Tensor& x, int dim, int by);
// Returns out[k] = product of x[j] over all j != k within `mask`; exact with zeros.
Tensor product_of_others(const Tensor& x, DimMask mask);

}  // namespace cograd
