// SPDX-License-Identifier: BSD-3-Clause
// Overrides: the type of an argument (or a mode) can take over an op through __cograd_function__ or
// __torch_function__.
#pragma once
#include "python/tensor/tensor.h"

namespace cograd::python {

// Set permanently once a class or mode that can override exists; until then a call pays one load.
extern bool overrides_possible;

// Offers func(*args, **kwargs) to overriding arguments and modes. Returns true if one of them
// handled the call: *out is its result (new reference), or null with an error set.
bool overridden(PyObject* func, PyObject* const* args, size_t n, PyObject* kwnames, PyObject** out);
// Does the same for Tensor.<name>, which is looked up only when needed.
bool overridden_method(const char* name, PyObject* const* args, size_t n, PyObject** out);
// Does the same for the getter of a property.
bool overridden_getter(const char* name, PyObject* self, PyObject** out);

// True if a mode sees the calls of this thread.
bool modes_active() noexcept;
// True if a class has an override that is not disabled, as Parameter's is.
bool type_overrides(PyTypeObject* type);
// True if objects of this type are PyTorch tensors. Compares names: torch is never imported here.
bool is_torch_tensor(PyTypeObject* type);
// Throws TypeError if one of the values, or an item of a list or tuple, is a torch.Tensor. Slow
// paths call it when they rejected a value that no override handled.
void refuse_torch(const char* where, PyObject* const* values, size_t n);

PyObject* tensor_as_subclass(PyObject* self, PyObject* cls);
PyObject* tensor_convert_result(PyObject* self, PyObject* cls);
void init_overrides(py::module_& m);

}  // namespace cograd::python
