// SPDX-License-Identifier: BSD-3-Clause
// Exposes optimizer steps to Python.
#pragma once
#include "python/tensor/tensor.h"

namespace cograd::python {

void init_optim(py::module_& m);

}  // namespace cograd::python
