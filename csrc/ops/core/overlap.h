// SPDX-License-Identifier: BSD-3-Clause
// Tensors that share memory, as far as writing in place minds.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// Same first element, dtype, sizes and strides.
bool same_elements(const Tensor& a, const Tensor& b);
// True if writing `out` element by element could change `in` before it is read.
bool overlaps_partially(const Tensor& out, const Tensor& in);
[[noreturn, gnu::cold]] void fail_overlap(const char* op);
// Raises if an element of `t` stands at several places of it.
COGRAD_API void check_distinct(const char* op, const Tensor& t);

}  // namespace cograd
