// SPDX-License-Identifier: BSD-3-Clause
// pybind11 names that torch's headers define.
#pragma once
#include <pybind11/functional.h>

#include "cograd/python.h"

namespace py = pybind11;

namespace pybind11::detail {
template <class T>
struct type_caster<cograd::torch_compat::List<T>> : list_caster<cograd::torch_compat::List<T>, T> {
};
}  // namespace pybind11::detail
