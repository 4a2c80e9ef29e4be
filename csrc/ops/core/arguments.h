// SPDX-License-Identifier: BSD-3-Clause
// Boxed arguments that a caller left out.
#pragma once
#include "ops/core/registry.h"

namespace cograd {

// Fills a parameter that was not given; false if it must be.
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
