// SPDX-License-Identifier: BSD-3-Clause
// Tensors over a storage that exists already, such as memory another library owns.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// A tensor over `storage`, whose reference it takes over, with its first element at `data`.
COGRAD_API Tensor tensor_of_storage(Storage* storage, DType t, IntList sizes, IntList strides,
                                    char* data);
// Bytes from the first element to the end of the last one; strides are not negative.
COGRAD_API int64_t span_of(IntList sizes, IntList strides, int64_t itemsize);

}  // namespace cograd
