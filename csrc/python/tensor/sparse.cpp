// SPDX-License-Identifier: BSD-3-Clause
// What cograd.sparse needs of the core: making sparse tensors, their values, and the operations
// that the engine calls.
#include "python/tensor/sparse.h"

#include <pybind11/stl.h>

#include "autograd/transforms/sparse.h"

namespace cograd::python {

namespace {

// Functions of cograd.sparse, which live as long as the process.
struct {
  PyObject *add = nullptr, *clone = nullptr, *cast = nullptr;
} functions;

template <class... Args>
Tensor call(PyObject* function, const Args&... args) {
  const py::gil_scoped_acquire gil;
  const py::object result = py::handle(function)(args()...);
  COGRAD_CHECK(is_tensor(result.ptr()), "cograd.sparse: expected a tensor");
  return unwrap(result.ptr());
}
auto object_of(const Tensor& t) {
  return [&t] { return py::reinterpret_steal<py::object>(wrap(t)); };
}

py::object make(const py::object& cls, const std::vector<int64_t>& sizes,
                const py::object& values) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
  COGRAD_CHECK_TYPE(PyType_Check(cls.ptr()) && PyType_IsSubtype(type, tensor_type) &&
                        type != tensor_type && is_tensor(values.ptr()),
                    "_make_sparse(cls, sizes, values): expected a subclass of Tensor and a Tensor");
  PyObject* out = wrap_as(type, make_sparse({sizes.data(), sizes.size()}, unwrap(values.ptr())));
  ensure_tracked(out);
  return py::reinterpret_steal<py::object>(out);
}

const Tensor& tensor_of(const py::object& o) {
  COGRAD_CHECK_TYPE(is_tensor(o.ptr()), "expected a Tensor, got ", Py_TYPE(o.ptr())->tp_name);
  return unwrap(o.ptr());
}

void set_ops(const py::object& add, const py::object& clone, const py::object& cast) {
  functions = {py::object(add).release().ptr(), py::object(clone).release().ptr(),
               py::object(cast).release().ptr()};
  sparse_ops.add = [](const Tensor& a, const Tensor& b) {
    return call(functions.add, object_of(a), object_of(b));
  };
  sparse_ops.clone = [](const Tensor& t) { return call(functions.clone, object_of(t)); };
  sparse_ops.cast = [](const Tensor& t, DType to) {
    return call(functions.cast, object_of(t), [to] { return py::handle(dtype_object(to)); });
  };
}

}  // namespace

void init_sparse(py::module_& m) {
  m.def("_make_sparse", &make);
  m.def("_sparse_values", [](const py::object& t) {
    return py::reinterpret_steal<py::object>(wrap(sparse_values(tensor_of(t))));
  });
  m.def("_set_sparse_values", [](const py::object& t, const py::object& values) {
    const Tensor before = sparse_values(tensor_of(t));  // released after the new ones are set
    set_sparse_values(tensor_of(t), tensor_of(values));
  });
  m.def("_set_sparse_ops", &set_ops);
}

}  // namespace cograd::python
