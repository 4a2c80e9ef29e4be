// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// Returns the memory of an optional argument of a kernel.
inline char* bytes_or_null(const Tensor& t) { return t.defined() ? t.bytes() : nullptr; }

}  // namespace cograd
