// SPDX-License-Identifier: BSD-3-Clause
// The text of ops' signatures, for messages, docstrings and inspect.signature.
#pragma once
#include <string>
#include <vector>

#include "ops/declare/registry.h"

namespace cograd::python {

// Returns the parameters of all forms of an op as one list, "(input, dim=None, *, out=None)".
std::string plain_signature(const std::vector<const OpRecord*>& forms, bool inplace);
// Returns "(x: Tensor, n: int = 1, *, out: Tensor | None = None) -> Tensor". The in-place form has
// no out=; the arrow is left out if the op does not say what it returns.
std::string typed_signature(const OpRecord& r, bool inplace);

}  // namespace cograd::python
