// SPDX-License-Identifier: BSD-3-Clause
// Tensors that take another shape: resize_ and out=.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// Raises if `t`'s memory cannot grow to elements of these sizes from its first one on.
void check_growth(const char* op, const Tensor& t, IntList sizes);
// Gives `t` the geometry; `strides` are of a dense tensor. The memory grows where it must.
void resize_dense(const char* op, const Tensor& t, IntList sizes, IntList strides);
// Gives an out= tensor the shape of the result, and its order of dims; warns if it had elements.
void resize_out(const char* op, const Tensor& out, const Tensor& result);
// Whether both are the same memory with the same geometry.
COGRAD_API bool is_set_to(const Tensor& a, const Tensor& b) noexcept;
// Raises if a call that is under way, but the innermost, uses `t`.
void check_unused(const char* op, const Tensor& t);
// Sizes, strides and first element, unchecked.
void take_geometry(const Tensor& t, IntList sizes, IntList strides, char* data);

}  // namespace cograd
