// SPDX-License-Identifier: BSD-3-Clause
// Sparse tensors as the core sees them: sizes, a dtype and a tensor of values. What the elements
// are, and every op on them, is in python/cograd/sparse; an op of the core raises.
#pragma once
#include "tensor/sparse.h"
#include "transforms/levels.h"

namespace cograd {

// Returns a sparse tensor. Its memory is one element with stride 0, NaN or the least integer, so
// that code which misses a check neither crashes nor finds plausible values.
COGRAD_API Tensor make_sparse(IntList sizes, const Tensor& values);
// Access to the values, whose history is that of the sparse tensor.
COGRAD_API const Tensor& sparse_values(const Tensor& t);
COGRAD_API void set_sparse_values(const Tensor& t, const Tensor& values);

// The engine calls these on sparse gradients. cograd.sparse sets them when it is imported, and
// nothing else makes sparse tensors. One argument of `add` may be dense.
struct SparseOps {
  Tensor (*add)(const Tensor&, const Tensor&) = nullptr;
  Tensor (*clone)(const Tensor&) = nullptr;
  Tensor (*cast)(const Tensor&, DType) = nullptr;
};
COGRAD_API extern SparseOps sparse_ops;

}  // namespace cograd
