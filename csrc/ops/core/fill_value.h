// SPDX-License-Identifier: BSD-3-Clause
// The one value that an op fills places with: a number, or a tensor of no dims.
#pragma once
#include "ops/core/op.h"

namespace cograd {

// The only element of a tensor.
COGRAD_API Scalar only_element(const Tensor& t);

// A 0-dim tensor of dtype t with the value. Raises where the tensor has dims, and where the value
// is beyond t's range: 16-bit floats have no inf made of it either, as in torch.
Tensor fill_value(const char* op, const TensorOrScalar& value, DType t);

}  // namespace cograd
