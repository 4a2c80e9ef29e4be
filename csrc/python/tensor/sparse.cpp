// SPDX-License-Identifier: BSD-3-Clause
// cograd.sparse calls these functions to make sparse tensors, to access their values, to transpose
// a pattern, and to set the operations that the engine calls.
#include "python/tensor/sparse.h"

#include "ops/linalg/csr.h"
#include "transforms/sparse.h"

namespace cograd::python {

namespace {

// Functions of cograd.sparse, which live as long as the process: add, clone, cast.
PyObject* functions[3] = {};

Tensor call(int which, const Tensor& a, PyObject* second) {
  const py::gil_scoped_acquire gil;
  const py::object first = py::reinterpret_steal<py::object>(wrap(a));
  PyObject* r = PyObject_CallFunctionObjArgs(functions[which], first.ptr(), second, nullptr);
  if (r == nullptr) throw_python_error();
  const py::object result = py::reinterpret_steal<py::object>(r);
  COGRAD_CHECK(is_tensor(r), "cograd.sparse: expected a tensor");
  return unwrap(r);
}
Tensor add(const Tensor& a, const Tensor& b) {
  const py::gil_scoped_acquire gil;
  const py::object second = py::reinterpret_steal<py::object>(wrap(b));
  return call(0, a, second.ptr());
}
Tensor clone(const Tensor& a) { return call(1, a, nullptr); }
Tensor cast(const Tensor& a, DType to) { return call(2, a, dtype_object(to)); }

const Tensor& tensor_of(PyObject* o) {
  COGRAD_CHECK_TYPE(is_tensor(o), "expected a Tensor, got ", Py_TYPE(o)->tp_name);
  return unwrap(o);
}
void check_count(Py_ssize_t n, Py_ssize_t expected) {
  COGRAD_CHECK_TYPE(n == expected, "expected ", expected, " arguments, got ", n);
}

// make(cls, values, *sizes)
PyObject* make(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    COGRAD_CHECK_TYPE(n >= 2 && PyType_Check(args[0]), "expected a class, values and sizes");
    auto* type = reinterpret_cast<PyTypeObject*>(args[0]);
    COGRAD_CHECK_TYPE(PyType_IsSubtype(type, tensor_type) && type != tensor_type,
                      "expected a subclass of Tensor");
    Dims sizes;
    for (Py_ssize_t i = 2; i < n; ++i) {
      int64_t size = 0;
      COGRAD_CHECK_TYPE(parse_int(args[i], &size) && size >= 0, "expected sizes");
      sizes.push_back(size);
    }
    PyObject* out = wrap_as(type, make_sparse(sizes, tensor_of(args[1])));
    ensure_tracked(out);
    return out;
  });
}

PyObject* values(PyObject*, PyObject* t) {
  return guarded([&] { return wrap(sparse_values(tensor_of(t))); });
}

PyObject* set_values(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check_count(n, 2);
    const Tensor before = sparse_values(tensor_of(args[0]));  // released after the new ones are set
    set_sparse_values(tensor_of(args[0]), tensor_of(args[1]));
    return Py_NewRef(Py_None);
  });
}

PyObject* set_ops(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check_count(n, 3);
    for (int i = 0; i < 3; ++i) functions[i] = Py_NewRef(args[i]);
    sparse_ops = {add, clone, cast};
    return Py_NewRef(Py_None);
  });
}

// transpose(start, col, cols, place=None)
PyObject* transpose(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    check_count(n, 4);
    int64_t cols = 0;
    COGRAD_CHECK_TYPE(parse_int(args[2], &cols) && cols >= 0, "expected a number of columns");
    const Tensor place = args[3] == Py_None ? Tensor() : tensor_of(args[3]);
    const auto [starts, rows, places] =
        csr_transpose(tensor_of(args[0]), tensor_of(args[1]), place, cols);
    PyObject* out = PyTuple_New(3);
    if (out == nullptr) throw_python_error();
    PyTuple_SET_ITEM(out, 0, wrap(starts));
    PyTuple_SET_ITEM(out, 1, wrap(rows));
    PyTuple_SET_ITEM(out, 2, wrap(places));
    return out;
  });
}

#define FASTCALL(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL
PyMethodDef methods[] = {
    {"_make_sparse", FASTCALL(make), nullptr},
    {"_sparse_values", values, METH_O, nullptr},
    {"_set_sparse_values", FASTCALL(set_values), nullptr},
    {"_set_sparse_ops", FASTCALL(set_ops), nullptr},
    {"_csr_transpose", FASTCALL(transpose), nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void init_sparse(py::module_& m) {
  if (PyModule_AddFunctions(m.ptr(), methods) < 0) throw_python_error();
}

}  // namespace cograd::python
