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

// Returns a copy of a dense CPU tensor in pinned memory, without history; `op` stands in errors.
Tensor pinned_copy(const Tensor& t, const char* op);
// Returns a tensor over the memory that `d`, an object's __cuda_array_interface__, describes.
Tensor tensor_from_cuda_array(const char* op, const py::object& owner, const py::dict& d);
// Lets the stream of another library, in DLPack's numbers, and this thread's current one wait for
// each other: the consumer's waits, or else this thread's.
void wait_for_stream(Device d, int64_t other, bool consumer_waits);
// Returns DLPack's number of this thread's current stream: 1 is the default stream.
int64_t stream_number(Device d);

#define COGRAD_FASTCALL(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f))
// Add methods to the Tensor type and functions to the module.
void add_methods(PyMethodDef* methods);
void add_functions(py::module_& m, PyMethodDef* functions);

void init_construct(py::module_& m);
void init_numpy(py::module_& m);
void init_protocols(py::module_& m);
void init_dlpack(py::module_& m);
void init_cuda_memory(py::module_& m);
void init_pickle(py::module_& m);

}  // namespace cograd::python
