// SPDX-License-Identifier: BSD-3-Clause
// Data exchange: what its files offer each other.
#pragma once
#include <optional>

#include "python/py_tensor.h"
#include "tensor/foreign.h"

namespace cograd::python {

// NumPy objects, recognised without importing NumPy: before it is imported there are none.
bool is_ndarray(PyObject* o) noexcept;
bool is_numpy_scalar(PyObject* o) noexcept;
// The dtype of an array or NumPy scalar; TypeError or ValueError if cograd has no such dtype.
DType numpy_dtype(PyObject* o);
Dims ndarray_sizes(PyObject* array);
// A tensor over the array's memory, which it keeps alive.
Tensor tensor_from_ndarray(const char* op, PyObject* array);
// A new tensor with the array's values; any strides, alignment and writability.
Tensor copy_of_ndarray(const char* op, PyObject* array);
PyObject* ndarray_of(const Tensor& t);

// A tensor over foreign memory; deleter(context) runs when nothing uses the memory any more.
Tensor tensor_over(char* data, DType t, IntList sizes, IntList strides, void (*deleter)(void*),
                   void* context, bool read_only);
// The deleter of memory that a Python object owns; context is a reference on it.
void drop_python_owner(void* context);

// A copy that keeps dense strides, without history.
Tensor fresh_copy(const Tensor& t, std::optional<DType> dtype = std::nullopt);
// The tensor that tensor(data) makes; nested sequences, numbers, arrays, tensors.
Tensor tensor_from_data(const char* op, PyObject* data, std::optional<DType> dtype);

#define COGRAD_FASTCALL(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f))
// Adds methods and attributes to the Tensor type.
void add_methods(PyMethodDef* methods);
void add_functions(py::module_& m, PyMethodDef* functions);

void init_construct(py::module_& m);
void init_numpy(py::module_& m);
void init_protocols(py::module_& m);
void init_dlpack(py::module_& m);
void init_pickle(py::module_& m);

}  // namespace cograd::python
