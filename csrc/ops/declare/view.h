// SPDX-License-Identifier: BSD-3-Clause
// Creates views of an op's input.
#pragma once
#include "ops/declare/op.h"

namespace cograd {

// Returns a differentiable view that shares memory, version and base with `x`.
inline Tensor make_view(const Tensor& x, IntList sizes, IntList strides, char* data) {
  Tensor out = alias_strided(x, sizes, strides, data);
  link_view(x, out);
  return out;
}

}  // namespace cograd
