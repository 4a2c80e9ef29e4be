// SPDX-License-Identifier: BSD-3-Clause
// Python Functions inside of a vmap.
#pragma once
#include "python/py_tensor.h"

namespace cograd::python {

// Whether the class's forward, backward and jvp run on tensors that have samples.
bool generates_vmap_rule(py::handle cls);
// cls.apply(*args) where arguments have samples; `names` are those of the last ones, which forward
// takes by keyword only. A new reference.
PyObject* apply_samples(py::handle cls, const py::tuple& args, const py::tuple& names);

}  // namespace cograd::python
