// SPDX-License-Identifier: BSD-3-Clause
// vmap: runs ops on a whole batch at once, by the rule that an op declares.
#pragma once
#include "ops/declare/batch_call.h"

namespace cograd {

// Returns the innermost vmap level of a call's batched tensors, 0 if there are none.
LevelId highest_batch_level(const OpRecord& r, const Value* args) noexcept;
void call_batched(const OpRecord& r, const Value* args, Result& out, LevelId level);
// Runs an in-place call on `self`. Raises if the written values are batched but `self` is not.
void call_batched_inplace(const OpRecord& r, const Tensor& self, const Value* args, LevelId level);
// True if a call of a dropout, (input, p, train), uses no random numbers.
bool draws_nothing(const OpRecord& r, const Value* args);
// Raises if each sample would need its own random numbers but `self` is not batched.
void check_drawing_inplace(const OpRecord& r, const Tensor& self);
// Handles an op that draws random numbers inside of vmaps. False if the numbers are already drawn
// separately, so that the call is like any other.
bool call_drawing(const OpRecord& r, const Value* args, Result& out);

}  // namespace cograd
