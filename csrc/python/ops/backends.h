// SPDX-License-Identifier: BSD-3-Clause
// Exposes the libraries used for matrix products and convolutions.
#pragma once
#include "python/tensor/tensor.h"

namespace cograd::python {

void init_backends(py::module_& m);
void init_cuda(py::module_& m);

}  // namespace cograd::python
