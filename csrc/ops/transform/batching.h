// SPDX-License-Identifier: BSD-3-Clause
// vmap: runs ops on a whole batch at once, by the rule that an op declares.
#pragma once
#include "ops/declare/batch_call.h"
#include "ops/declare/stages.h"

namespace cograd {

// Returns the innermost vmap level of a call's batched tensors, 0 if there are none.
LevelId highest_batch_level(const OpRecord& r, const Value* args) noexcept;
}  // namespace cograd
