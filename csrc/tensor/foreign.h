// SPDX-License-Identifier: BSD-3-Clause
// Tensors over an existing storage, such as memory that another library owns.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// Returns a tensor over `storage` with its first element at `data`. Takes over the reference on
// `storage`, also when it throws.
COGRAD_API Tensor tensor_of_storage(Storage* storage, DType t, IntList sizes, IntList strides,
                                    char* data);
// Returns the bytes from the first element to the end of the last one; strides are not negative.
COGRAD_API int64_t span_of(IntList sizes, IntList strides, int64_t itemsize);

}  // namespace cograd
