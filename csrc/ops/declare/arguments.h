// SPDX-License-Identifier: BSD-3-Clause
// Fills in boxed arguments that the caller omitted.
#pragma once
#include "ops/declare/registry.h"

namespace cograd {

// Sets an omitted argument to its default; false if the parameter is required.
inline bool fill_missing(const ArgInfo& a, Value& v) {
  if (a.has_default) {
    v = a.default_value;
    return true;
  }
  if (!a.variadic) return false;
  v.set_list(a.kind == ArgKind::Tensors ? COGRAD_TENSORS : COGRAD_INTS, nullptr, 0);
  return true;
}

}  // namespace cograd
