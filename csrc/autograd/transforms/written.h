// SPDX-License-Identifier: BSD-3-Clause
// Tensors written while recorded may reach themselves through their graph. Python's collector frees
// such a cycle if a Python object stands for the tensor, which those that C++ alone writes lack.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// Gives `t`, and what it is a view of, such an object. Null: there is no Python.
extern COGRAD_API void (*keep_for_collector)(TensorImpl* t) noexcept;

}  // namespace cograd
