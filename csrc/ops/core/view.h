// SPDX-License-Identifier: BSD-3-Clause
// How ops make views of their input.
#pragma once
#include "ops/core/op.h"

namespace cograd {

// A differentiable view: shares memory, version and base with `x`.
inline Tensor make_view(const Tensor& x, IntList sizes, IntList strides, char* data) {
  Tensor out = alias_strided(x, sizes, strides, data);
  link_view(x, out);
  return out;
}

}  // namespace cograd
