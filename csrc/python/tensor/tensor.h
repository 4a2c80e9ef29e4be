// SPDX-License-Identifier: BSD-3-Clause
// The Python type Tensor. A tensor has at most one Python object.
#pragma once
#include "transforms/batch.h"
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pybind11/pybind11.h>

#include "autograd/graph/variable.h"
#include "ops/declare/registry.h"
#include "python/runtime/gil.h"

namespace cograd::python {

namespace py = pybind11;

// Normally the object owns a reference on `impl`. When Python drops an object that has state
// (attributes, weakrefs, a subclass) while C++ still holds the tensor, the tensor takes ownership
// of the object (kOwnsPyObject) until Python sees the tensor again.
struct PyTensor {
  PyObject_HEAD TensorImpl* impl;
  PyObject* dict;
  PyObject* weakrefs;
};

extern PyTypeObject* tensor_type;

inline bool is_tensor(PyObject* o) noexcept {
  return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type) != 0;
}
// Returns a borrowed view of the C++ Tensor in a Python tensor; never undefined.
inline const Tensor& unwrap(PyObject* o) noexcept {
  return reinterpret_cast<const Tensor&>(reinterpret_cast<PyTensor*>(o)->impl);
}
// Returns the Python object of `t` (new reference); None if undefined.
PyObject* wrap(Tensor t);
// Makes an object of `type` (a subclass of Tensor) for `t`, or for an alias if `t` has an object
// already.
PyObject* wrap_as(PyTypeObject* type, Tensor t);
// Makes the cycle collector track the object; call it once the object can be part of a cycle.
void ensure_tracked(PyObject* o) noexcept;

// Releases the GIL for large kernels and backward runs; returns null if this thread does not hold
// it.
void* release_gil();
void restore_gil(void* state);

// Sets the Python error that corresponds to the C++ exception being handled. Returns nullptr.
PyObject* translate_exception() noexcept;

// Runs f and turns C++ exceptions into Python errors.
template <class F>
PyObject* guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    return translate_exception();
  }
}
template <class F>
int guarded_int(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    translate_exception();
    return -1;
  }
}
// Makes __new__ raise for a pybind11 class whose objects come from C++ only. Otherwise it would
// make an object without a C++ value.
void forbid_new(py::handle cls);
// Throws the pending Python error as a C++ exception, which keeps the traceback.
[[noreturn]] inline void throw_python_error() { throw py::error_already_set(); }

// Returns the UTF-8 text of a str; raises RuntimeError, naming `who`, if it cannot be encoded.
std::string utf8_text(PyObject* text, const char* who);

// dtype, device and Size objects.
PyObject* dtype_object(DType t) noexcept;  // borrowed
bool is_dtype(PyObject* o) noexcept;
// Reads a dtype object, or one of the Python types float, int, bool and complex.
bool parse_dtype(PyObject* o, DType* out) noexcept;
bool is_device(PyObject* o) noexcept;
PyTypeObject* device_type_object() noexcept;
bool parse_device(PyObject* o, Device* out);  // throws for unknown devices
PyObject* device_object(Device d);
PyObject* size_object(IntList sizes);  // cograd.Size

// Reads a scalar: float, int, bool, complex or a NumPy scalar. Returns false, without an error,
// otherwise.
bool parse_scalar(PyObject* o, Scalar* out) noexcept;
// Reads a Python int from 2^63 to 2^64 - 1; returns false for others.
bool parse_large(PyObject* o, Scalar* out) noexcept;
// Reads an integer through __index__; returns false for a bool.
bool parse_int(PyObject* o, int64_t* out) noexcept;
Scalar item(const Tensor& t);
// Returns the only element as a condition.
bool is_true(const Tensor& t);
PyObject* scalar_object(const Scalar& s);

// Each of these registers its file's part of the module.
void init_types(py::module_& m);
void init_tensor(py::module_& m);
void init_ops(py::module_& m);
void init_indexing(py::module_& m);
void init_nodes(py::module_& m);
void init_grad_modes(py::module_& m);
void init_function(py::module_& m);
void init_gc(py::module_& m);
void init_saved(py::module_& m);
void init_watch(py::module_& m);
void init_graph_data(py::module_& m);
void init_transforms(py::module_& m);
void init_interop(py::module_& m);
void init_random(py::module_& m);
void init_extension(py::module_& m);

// The getset, method and slot tables that make up the Tensor type.
extern PyGetSetDef tensor_getset[];
extern PyMethodDef tensor_methods[];
extern PyNumberMethods tensor_number;
extern PyBufferProcs tensor_buffer;
PyObject* tensor_iter(PyObject* self);
PyObject* tensor_get_dict(PyObject* self, void*);
int tensor_set_dict(PyObject* self, PyObject* value, void*);
int tensor_contains(PyObject* self, PyObject* value);
PyObject* tensor_getitem(PyObject* self, PyObject* key);
int tensor_setitem(PyObject* self, PyObject* key, PyObject* value);
PyObject* tensor_richcompare(PyObject* a, PyObject* b, int op);

// These visit the C++ graph for the cycle collector (python/autograd/gc.cpp).
int visit_impl(TensorImpl* t, visitproc visit, void* arg);
int visit_node(Node* n, visitproc visit, void* arg);

}  // namespace cograd::python

namespace pybind11::detail {
template <>
struct type_caster<cograd::Tensor> {
  PYBIND11_TYPE_CASTER(cograd::Tensor, const_name("Tensor"));
  bool load(handle src, bool) {
    if (!cograd::python::is_tensor(src.ptr())) return false;
    value = cograd::python::unwrap(src.ptr());
    return true;
  }
  static handle cast(cograd::Tensor t, return_value_policy, handle) {
    return cograd::python::wrap(std::move(t));
  }
};
}  // namespace pybind11::detail
