// SPDX-License-Identifier: BSD-3-Clause
// Runs Python Functions inside a vmap.
#pragma once
#include "python/tensor/tensor.h"

namespace cograd::python {

// True if the class's forward, backward and jvp themselves run on batched tensors.
bool generates_vmap_rule(py::handle cls);
// Computes cls.apply(*args) where arguments are batched. `names` are the names of the last
// arguments, which are keyword-only in forward. Returns a new reference.
PyObject* apply_samples(py::handle cls, const py::tuple& args, const py::tuple& names);

}  // namespace cograd::python
