// SPDX-License-Identifier: BSD-3-Clause
// Registers what cograd.sparse needs of the core.
#pragma once
#include "python/tensor/tensor.h"

namespace cograd::python {

void init_sparse(py::module_& m);

}  // namespace cograd::python
