// SPDX-License-Identifier: BSD-3-Clause
// out= of ops with several results.
#pragma once
#include "ops/core/registry.h"

namespace cograd {

// Whether the record takes out=(a, b, ...): several results and kOut among its flags.
inline bool takes_outs(const OpRecord& r) noexcept {
  return r.result == Result::Kind::Tuple && (r.spec.flags & kOut) != 0;
}
// Calls the record and puts its results into `outs`, resizing them as out= of one tensor does.
COGRAD_API void call_into(const OpRecord& r, TensorList outs, const Value* args);

}  // namespace cograd
