// SPDX-License-Identifier: BSD-3-Clause
// Forward mode: results with their tangents.
#pragma once
#include "ops/core/transform.h"

namespace cograd {

// A view of the whole of `x` (shape/permute.cpp).
COGRAD_API Tensor alias(const Tensor& x);

// The same values with the tangents that are seen here. No view: what is seen of the tensor that
// `x` is a view of does not concern it.
COGRAD_API Tensor values_of(const Tensor& x);

// Runs the op for the values, and its rule for the tangents at `level`, the highest one among them.
void call_with_tangents(const OpRecord& r, const Value* args, Result& out,
                        const std::shared_ptr<TangentLevel>& level);

}  // namespace cograd
