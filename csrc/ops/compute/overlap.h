// SPDX-License-Identifier: BSD-3-Clause
// Detects shared memory that makes an in-place write unsafe.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// True if both have the same first element, dtype, sizes and strides.
bool same_elements(const Tensor& a, const Tensor& b);
// True if writing `out` element by element could change `in` before it is read.
bool overlaps_partially(const Tensor& out, const Tensor& in);
[[noreturn, gnu::cold]] void fail_overlap(const char* op);
// Raises if `t` has internal overlap: two of its elements share an address.
COGRAD_API void check_distinct(const char* op, const Tensor& t);

}  // namespace cograd
