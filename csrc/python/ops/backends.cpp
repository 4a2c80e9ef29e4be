// SPDX-License-Identifier: BSD-3-Clause
// Exposes the libraries used for matrix products and convolutions to cograd.backends, and what
// happens to ops for which a device has no kernel.
#include "python/ops/backends.h"

#include <array>

#include "kernels/libraries/library.h"
#include "ops/declare/fallback.h"

namespace cograd::python {

namespace {

constexpr std::array<std::string_view, 3> kPolicies = {"warn", "silent", "error"};

void init_fallback(py::module_& m) {
  m.def(
      "_set_fallback",
      [](const std::string& policy) {
        for (size_t i = 0; i < kPolicies.size(); ++i)
          if (policy == kPolicies[i]) return set_fallback(static_cast<FallbackPolicy>(i));
        throw py::value_error("set_fallback(): argument 'policy' is '" + policy +
                              "'; expected 'warn', 'silent' or 'error'");
      },
      py::arg("policy"));
  m.def("_get_fallback",
        [] { return std::string(kPolicies[static_cast<size_t>(fallback_policy())]); });
  m.def("_fallbacks", [] {
    py::dict d;
    for (const FallbackCount& c : fallbacks()) d[py::str(c.op)] = py::make_tuple(c.calls, c.bytes);
    return d;
  });
  m.def("_clear_fallbacks", &clear_fallbacks);
  m.def("_force_fallback", &force_fallback, py::arg("on"));
}

}  // namespace

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
  init_fallback(m);
}

}  // namespace cograd::python
