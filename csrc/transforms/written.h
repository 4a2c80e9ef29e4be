// SPDX-License-Identifier: BSD-3-Clause
// A tensor that was written in place while recorded may be part of a cycle through its graph.
// Python's collector frees the cycle only if the tensor has a Python object; a tensor that only C++
// code uses has none.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// Creates Python objects for `t` and for its base. Null in a program without Python.
extern COGRAD_API void (*keep_for_collector)(TensorImpl* t) noexcept;

}  // namespace cograd
