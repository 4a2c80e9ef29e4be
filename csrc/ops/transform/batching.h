// SPDX-License-Identifier: BSD-3-Clause
// vmap: ops on all samples at once, by the rule that an op declares.
#pragma once
#include "ops/core/batch_call.h"

namespace cograd {

// Of a call with handles: the innermost of their levels, 0 if there are none.
LevelId highest_batch_level(const OpRecord& r, const Value* args) noexcept;
void call_batched(const OpRecord& r, const Value* args, Result& out, LevelId level);
// Of a call whose first argument is written: raises if that is the same for all samples, but not
// what is written.
void call_batched_inplace(const OpRecord& r, const Tensor& self, const Value* args, LevelId level);
// Whether a call of a dropout, (input, p, train), leaves nothing to random numbers.
bool draws_nothing(const OpRecord& r, const Value* args);
// Raises if numbers of each sample's own would be drawn into a tensor that has none.
void check_drawing_inplace(const OpRecord& r, const Tensor& self);
// Of an op that draws random numbers inside of vmaps. False: they are told apart already, and the
// call is like any other.
bool call_drawing(const OpRecord& r, const Value* args, Result& out);

}  // namespace cograd
