// SPDX-License-Identifier: BSD-3-Clause
// What reductions and scans share: sets of dims, geometry, and views that undo a reduction.
#pragma once
#include "kernels/reduce.h"
#include "ops/core/ops.h"
#include "ops/core/raw.h"

namespace cograd {

using DimMask = uint64_t;  // bit i: dim i is reduced

inline DimMask all_dims(int ndim) noexcept {
  return ndim >= 64 ? ~DimMask{0} : (DimMask{1} << ndim) - 1;
}
// None or an empty list means every dim; raises on dims out of range or given twice.
DimMask dim_mask(const Tensor& x, const std::optional<IntList>& dims);
Dims mask_dims(DimMask mask);

// Kept and reduced dims in the form the kernels want, and the result's shape.
struct ReducePlan {
  ReducePlan(const Tensor& x, DimMask mask, bool keepdim);
  kernels::ReduceGeometry geometry() const { return {kept, kept_steps, reduced, reduced_steps}; }
  Dims shape, kept, kept_steps, reduced, reduced_steps;
  int64_t count = 1;  // elements behind each result
};

// What the backward of a reduction needs to undo it.
struct ReduceState {
  Dims sizes;
  DimMask mask = 0;
};

// Elements along one dim as [outer, n, inner]; a 0-dim tensor is [1, 1, 1].
struct Axis {
  int64_t outer = 1;
  int64_t n = 1;
  int64_t inner = 1;
};
Axis axis_of(IntList sizes, int dim);

// Views a reduced tensor (dims kept as 1 or dropped) at the full `sizes`; differentiable.
Tensor expand_reduced(const Tensor& g, IntList sizes, DimMask mask);
// The differentiable sum over `mask`; x itself if mask is empty.
Tensor sum_mask(const Tensor& x, DimMask mask, bool keepdim);

// a / b, and 0 with zero derivatives where b is 0.
Tensor ratio_or_zero(const Tensor& a, const Tensor& b);
// The gradient of an extreme y of x over `mask`, divided evenly among the elements equal to y.
// Where y is NaN, its ties are the NaN, or with `nan_ties` false nothing is and all get NaN.
Tensor split_among_ties(const Tensor& g, const Tensor& x, const Tensor& y, DimMask mask,
                        bool nan_ties = true);
// out[.., j, ..] = x[.., index[.., j, ..], ..] along dim; index is int64 with in-range entries and
// has x's other dims, with dim present or dropped (then one element is taken).
Tensor take_along(const Tensor& x, int dim, const Tensor& index);
// The transpose of take_along: zeros of `sizes` with g added at the indices.
Tensor put_along(const Tensor& g, int dim, const Tensor& index, IntList sizes);
// s[k] = a[k] + b[k] * s[k + 1] (k - 1 if not reverse) along dim; undefined b counts as ones.
Tensor linear_recurrence(const Tensor& a, const Tensor& b, int dim, bool reverse);
// out[k] = x[k - by] along dim, 0 where there is none.
Tensor shift(const Tensor& x, int dim, int by);
// out[k] = product of x[j] over all j != k within `mask`; exact with zeros.
Tensor product_of_others(const Tensor& x, DimMask mask);

}  // namespace cograd
