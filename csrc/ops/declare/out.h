// SPDX-License-Identifier: BSD-3-Clause
// out= for ops with several results.
#pragma once
#include "ops/declare/registry.h"

namespace cograd {

// True if the record accepts out=(a, b, ...): it returns a tuple and has kOut.
inline bool takes_outs(const OpRecord& r) noexcept {
  return r.result == Result::Kind::Tuple && (r.spec.flags & kOut) != 0;
}
// Calls the record and writes its results into `outs`, resizing them as out= of one tensor does.
COGRAD_API void call_into(const OpRecord& r, TensorList outs, const Value* args);

}  // namespace cograd
