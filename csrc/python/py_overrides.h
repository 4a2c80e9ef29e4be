// SPDX-License-Identifier: BSD-3-Clause
// Overrides: arguments whose type (or a mode) takes an op over through __cograd_function__ or
// __torch_function__.
#pragma once
#include "python/py_tensor.h"

namespace cograd::python {

// Set for good once a class or a mode that can override exists: until then a call costs one load.
extern bool overrides_possible;

// Asks overriding arguments and modes for func(*args, **kwargs). True if the call is settled:
// *out is its result (new reference) or null with an error set.
bool overridden(PyObject* func, PyObject* const* args, size_t n, PyObject* kwnames, PyObject** out);
// The same for Tensor.<name>, looked up when it is needed.
bool overridden_method(const char* name, PyObject* const* args, size_t n, PyObject** out);
// The same for the getter of a property.
bool overridden_getter(const char* name, PyObject* self, PyObject** out);

// Whether a mode sees what this thread calls.
bool modes_active() noexcept;
// Whether a class has an override that is not switched off, as Parameter's is.
bool type_overrides(PyTypeObject* type);
// Whether objects of this type are PyTorch's tensors, known by name: it is never imported here.
bool is_torch_tensor(PyTypeObject* type);
// Throws TypeError if one of the values, or of the items of a list or tuple, is a torch.Tensor of
// PyTorch: for the slow paths, where a value was refused that an override has not taken.
void refuse_torch(const char* where, PyObject* const* values, size_t n);

PyObject* tensor_as_subclass(PyObject* self, PyObject* cls);
void init_overrides(py::module_& m);

}  // namespace cograd::python
