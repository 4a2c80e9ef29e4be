// SPDX-License-Identifier: BSD-3-Clause
// Gives tensors a new shape for resize_ and out=.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// Raises if t's storage cannot grow to elements of these sizes, counted from its first element.
void check_growth(const char* op, const Tensor& t, IntList sizes);
// Sets the geometry of `t`; `strides` must be dense. Grows the storage if necessary.
void resize_dense(const char* op, const Tensor& t, IntList sizes, IntList strides);
// Resizes an out= tensor to the result's shape and order of dims; warns if it had elements.
void resize_out(const char* op, const Tensor& out, const Tensor& result);
// True if both have the same memory and the same geometry.
COGRAD_API bool is_set_to(const Tensor& a, const Tensor& b) noexcept;
// Raises if a call in progress, other than the innermost one, uses `t`.
void check_unused(const char* op, const Tensor& t);
// Sets sizes, strides and the first element without checks.
void take_geometry(const Tensor& t, IntList sizes, IntList strides, char* data);

}  // namespace cograd
