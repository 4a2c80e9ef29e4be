// SPDX-License-Identifier: BSD-3-Clause
// Exposes the libraries used for matrix products and convolutions to cograd.backends.
#include "python/ops/backends.h"
#include "kernels/libraries/library.h"

namespace cograd::python {

void init_backends(py::module_& m) {
  using namespace kernels;
  m.def(
      "_load_backend",
      [](const std::string& name, const std::string& path) {
        load_library(library_of(name), path);
      },
      py::arg("name"), py::arg("path"));
  m.def(
      "_is_backend_loaded", [](const std::string& name) { return is_loaded(library_of(name)); },
      py::arg("name"));
  m.def(
      "_backend_version", [](const std::string& name) { return version_of(library_of(name)); },
      py::arg("name"));
  m.def(
      "_choose_backend",
      [](const std::string& operation, const std::string& name) {
        choose_library(operation_of(operation), library_of(name));
      },
      py::arg("operation"), py::arg("name"));
  m.def(
      "_chosen_backend",
      [](const std::string& operation) { return name_of(chosen_library(operation_of(operation))); },
      py::arg("operation"));
  m.def("_cpu_capability", &cpu_capability);
}

}  // namespace cograd::python
