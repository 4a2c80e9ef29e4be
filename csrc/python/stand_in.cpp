// SPDX-License-Identifier: BSD-3-Clause
// Placeholders until these parts land.
#include <pybind11/stl.h>

#include "python/py_tensor.h"
namespace cograd::python {
void init_interop(py::module_& m) {
  m.def("_full", [](std::vector<int64_t> s, double v) {
    Tensor t = empty(s, DType::Float32);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(v);
    return t;
  });
  m.def("_list", [](const Tensor& t) {
    std::vector<double> v;
    for (int64_t i = 0; i < t.numel(); ++i) v.push_back(t.data<float>()[i]);
    return v;
  });
}
void init_random(py::module_&) {}
}  // namespace cograd::python
