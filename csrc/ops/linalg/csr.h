// SPDX-License-Identifier: BSD-3-Clause
// The pattern of a transposed sparse matrix.
#pragma once
#include <tuple>

#include "tensor/tensor.h"

namespace cograd {

// Returns starts, columns and places of the transpose of a matrix with `cols` columns.
COGRAD_API std::tuple<Tensor, Tensor, Tensor> csr_transpose(const Tensor& start, const Tensor& col,
                                                            const Tensor& place, int64_t cols);

}  // namespace cograd
