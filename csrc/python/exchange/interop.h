// SPDX-License-Identifier: BSD-3-Clause
// Functions for data exchange that several files use.
#pragma once
#include <optional>

#include "python/tensor/tensor.h"
#include "tensor/foreign.h"

namespace cograd::python {

// These recognise NumPy objects without importing NumPy: before it is imported there are none.
bool is_ndarray(PyObject* o) noexcept;
bool is_numpy_scalar(PyObject* o) noexcept;
// Returns the dtype of an array or NumPy scalar; raises TypeError or ValueError if cograd lacks it.
DType numpy_dtype(PyObject* o);
Dims ndarray_sizes(PyObject* array);
// Returns a tensor over the array's memory that keeps the array alive.
Tensor tensor_from_ndarray(const char* op, PyObject* array);
// Returns a new tensor with the values of an array of any strides, alignment and writability.
Tensor copy_of_ndarray(const char* op, PyObject* array);
PyObject* ndarray_of(const Tensor& t);

// Returns a tensor over foreign memory; deleter(context) runs when nothing uses the memory any
// more.
Tensor tensor_over(char* data, DType t, IntList sizes, IntList strides, void (*deleter)(void*),
                   void* context, bool read_only);
// The deleter of memory that a Python object owns; `context` is a reference to that object.
void drop_python_owner(void* context);

// Returns a copy without history that keeps dense strides.
Tensor fresh_copy(const Tensor& t, std::optional<DType> dtype = std::nullopt);
// Returns the tensor that tensor(data) makes from nested sequences, scalars, arrays or tensors.
Tensor tensor_from_data(const char* op, PyObject* data, std::optional<DType> dtype);

#define COGRAD_FASTCALL(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f))
// Add methods to the Tensor type and functions to the module.
void add_methods(PyMethodDef* methods);
void add_functions(py::module_& m, PyMethodDef* functions);

void init_construct(py::module_& m);
void init_numpy(py::module_& m);
void init_protocols(py::module_& m);
void init_dlpack(py::module_& m);
void init_pickle(py::module_& m);

}  // namespace cograd::python
