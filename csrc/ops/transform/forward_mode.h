// SPDX-License-Identifier: BSD-3-Clause
// Forward mode: computes results with their tangents.
#pragma once
#include "ops/declare/transform.h"

namespace cograd {

// Returns a view of all of `x` (shape/permute.cpp).
COGRAD_API Tensor alias(const Tensor& x);

// Returns the same values with the tangents visible here. The result is not a view, so tangents of
// the base of `x` do not affect it.
COGRAD_API Tensor values_of(const Tensor& x);

// Runs the op on the values, and its rule on the tangents at `level`, the highest among them.
void call_with_tangents(const OpRecord& r, const CallForm& form, const Value* args, Result& out,
                        const std::shared_ptr<TangentLevel>& level);

}  // namespace cograd
